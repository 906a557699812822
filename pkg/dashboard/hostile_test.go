package dashboard_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/access/audit"
	answer "github.com/belfry-mq/belfry/pkg/client/api"
)

// hostile is a name that turns the direction of what follows, and has letters of both directions.
const hostile = "\u202eevil\u2066 \u05e9\u05dc\u05d5\u05dd"

// typeOf maps the paths of the API to the types of the answers. The first match counts.
var typeOf = []struct {
	path *regexp.Regexp
	kind reflect.Type
}{
	{regexp.MustCompile(`/rights$`), reflect.TypeFor[answer.Rights]()},
	{regexp.MustCompile(`/schedules$`), reflect.TypeFor[answer.SchedulePage]()},
	{regexp.MustCompile(`/schedules/`), reflect.TypeFor[answer.Schedule]()},
	{regexp.MustCompile(`/pauses$`), reflect.TypeFor[answer.Pauses]()},
	{regexp.MustCompile(`/undo$`), reflect.TypeFor[answer.Undo]()},
	{regexp.MustCompile(`/dlq/jobs$`), reflect.TypeFor[answer.RedriveJobs]()},
	{regexp.MustCompile(`/attempts$`), reflect.TypeFor[answer.MessageAttempts]()},
	{regexp.MustCompile(`/dlq/summary`), reflect.TypeFor[answer.DeadLetterSummary]()},
	{regexp.MustCompile(`/dlq$`), reflect.TypeFor[answer.DeadLetters]()},
	{regexp.MustCompile(`/status/dispatcher`), reflect.TypeFor[answer.Dispatcher]()},
	{regexp.MustCompile(`/status/queues/`), reflect.TypeFor[answer.QueueStatus]()},
	{regexp.MustCompile(`/resources/queues/.*/groups`), reflect.TypeFor[answer.QueueGroups]()},
	{regexp.MustCompile(`/resources/queues/.*/partitions`), reflect.TypeFor[answer.PartitionHeats]()},
	{regexp.MustCompile(`/consumer-groups/.*/partitions$`), reflect.TypeFor[answer.PlaceList]()},
	{regexp.MustCompile(`/consumer-groups/.*/seek`), reflect.TypeFor[answer.SeekPreview]()},
	{regexp.MustCompile(`/consumer-groups/`), reflect.TypeFor[answer.GroupState]()},
	{regexp.MustCompile(`/explain`), reflect.TypeFor[answer.Explanation]()},
	{regexp.MustCompile(`/groups$`), reflect.TypeFor[answer.GroupPage]()},
	{regexp.MustCompile(`/worker-metrics`), reflect.TypeFor[answer.WorkerMetrics]()},
	{regexp.MustCompile(`/queue-lag`), reflect.TypeFor[[]answer.QueueLag]()},
	{regexp.MustCompile(`/queue-ops`), reflect.TypeFor[answer.QueueOps]()},
	{regexp.MustCompile(`/retention`), reflect.TypeFor[answer.Retention]()},
	{regexp.MustCompile(`/messages/`), reflect.TypeFor[answer.StoredMessage]()},
	{regexp.MustCompile(`/messages$`), reflect.TypeFor[answer.Messages]()},
	{regexp.MustCompile(`/traces/names`), reflect.TypeFor[answer.TraceNames]()},
	{regexp.MustCompile(`/traces/by-name`), reflect.TypeFor[answer.NamedTraces]()},
	{regexp.MustCompile(`/traces/`), reflect.TypeFor[answer.Traces]()},
	{regexp.MustCompile(`/audit`), reflect.TypeFor[answer.Audit]()},
	{regexp.MustCompile(`/totals`), reflect.TypeFor[answer.Totals]()},
	{regexp.MustCompile(`/queues$`), reflect.TypeFor[answer.QueuePage]()},
	{regexp.MustCompile(`/problems`), reflect.TypeFor[answer.Problems]()},
	{regexp.MustCompile(`/attachments`), reflect.TypeFor[answer.Attachments]()},
	{regexp.MustCompile(`/inbox/rejected`), reflect.TypeFor[answer.RejectedRows]()},
	{regexp.MustCompile(`/tags`), reflect.TypeFor[answer.Tags]()},
	{regexp.MustCompile(`/streams`), reflect.TypeFor[answer.Streams]()},
	{regexp.MustCompile(`/maintenance/rejected`), reflect.TypeFor[answer.SpoolRejections]()},
	{regexp.MustCompile(`/maintenance`), reflect.TypeFor[answer.Maintenance]()},
	{regexp.MustCompile(`/doctor`), reflect.TypeFor[answer.Examination]()},
	{regexp.MustCompile(`/postgres-stats`), reflect.TypeFor[answer.Postgres]()},
	{regexp.MustCompile(`/system-metrics`), reflect.TypeFor[answer.SystemMetrics]()},
}

// fill sets every text of a value to text, except ids that the server makes.
func fill(v reflect.Value, field, text string) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), field, text)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Now()))
			return
		}
		for i := range v.NumField() {
			fill(v.Field(i), v.Type().Field(i).Name, text)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		if v.Type() == reflect.TypeFor[map[string]string]() {
			v.SetMapIndex(reflect.ValueOf("name"), reflect.ValueOf(text))
		}
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[json.RawMessage]() {
			quoted, _ := json.Marshal(map[string]string{text: text})
			v.Set(reflect.ValueOf(json.RawMessage(quoted)))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), field, text)
	case reflect.String:
		if strings.HasSuffix(field, "ID") && field != "TransactionID" && field != "TraceID" {
			text = "5f0c3f0e-63f5-4d2c-8a0b-6a3c6d5a1b11"
		}
		v.SetString(text)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(3)
	case reflect.Float64:
		v.SetFloat(3)
	case reflect.Bool:
		v.SetBool(true)
	default:
	}
}

// hostileAPI answers with text as every name.
func hostileAPI(text string) http.Handler {
	return apiFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, one := range typeOf {
			if one.path.MatchString(r.URL.Path) {
				filled := reflect.New(one.kind)
				fill(filled.Elem(), "", text)
				_ = json.NewEncoder(w).Encode(filled.Interface())
				return
			}
		}
		http.NotFound(w, r)
	})
}

// everyPage has an address of each page, with a name in the place of NAME.
var everyPage = []string{
	"", "queues", "groups", "messages", "messages?q=NAME&t=NAME", "dead", "dead?q=NAME&g=NAME", "dispatcher", "history", "system", "producers", "streams",
	"maintenance", "access", "audit", "traces", "traces?name=NAME", "queue?q=NAME&p=NAME", "queue?q=NAME&order=name", "group?q=NAME&g=NAME&p=NAME", "group?q=NAME&g=NAME&list=name",
	"group?q=NAME&g=NAME&seek=beginning", "options?q=NAME&preview=1&leaseTime=90&whole=1", "message?partition=p&t=NAME", "undo?id=NAME", "jobs",
	"schedules?q=NAME&name=NAME", "schedule?name=NAME", "schedule-edit?name=NAME", "schedule-edit",
}

func openPage(t *testing.T, s setup, path, name string) *httptest.ResponseRecorder {
	t.Helper()
	w := s.send(t, http.MethodGet, "/ui/"+strings.ReplaceAll(path, "NAME", url.QueryEscape(name)), "")
	require.Equal(t, http.StatusOK, w.Code, "%s: %s", path, w.Body)
	return w
}

var (
	part = regexp.MustCompile(`<(/?)([a-z0-9]+)[^>]*>|[^<]+`)
	// noMarkup are elements that can have no other element in them.
	noMarkup = []string{"option", "title", "textarea"}
)

// headerLines is the text of a field with headers. A header has no escape, so the field shows it unchanged.
const headerLines = "\nname: "

// loose returns the texts of a page with a name that no bdi isolates, and the texts that change the direction.
func loose(page string) (found []string) {
	isolated, plain, code := 0, 0, 0
	for _, match := range part.FindAllStringSubmatch(page, -1) {
		step := 1
		if match[1] != "" {
			step = -1
		}
		turns := strings.ContainsFunc(match[0], func(r rune) bool { return unicode.Is(unicode.Bidi_Control, r) })
		switch {
		case match[2] == "bdi":
			isolated += step
		case match[2] == "code" || match[2] == "pre":
			code += step
		case slices.Contains(noMarkup, match[2]):
			plain += step
		case match[2] == "" && strings.Contains(match[0], "evil") && isolated == 0 && plain == 0,
			match[2] == "" && turns && (isolated == 0 || code == 0) && (plain == 0 || !strings.HasPrefix(match[0], headerLines)):
			found = append(found, match[0])
		}
	}
	return found
}

// A name can change neither the direction nor the order of the text around it: each is in an element bdi, and what turns the direction
// is shown as its code. Only texts to copy keep it.
func TestNamesAreIsolated(t *testing.T) {
	t.Parallel()
	require.NotEmpty(t, loose("<p>evil</p>"))
	require.NotEmpty(t, loose("<p><bdi>\u202e</bdi></p>"))
	s := startOn(t, hostileAPI(hostile))
	for _, path := range everyPage {
		for _, text := range loose(openPage(t, s, path, hostile).Body.String()) {
			t.Errorf("%s: %q", path, text)
		}
	}
}

// A name without a visible character can be seen and pressed.
func TestAnInvisibleNameIsVisible(t *testing.T) {
	t.Parallel()
	for name, shown := range map[string]string{" ": "␣", "\u200b": "[U+200B]", "a  b ": "a␣␣b␣", "\u3164": "[U+3164]", "\u00a0": "[U+00A0]", "a\nb": "a[U+000A]b"} {
		page := openPage(t, startOn(t, hostileAPI(name)), "queues", "").Body.String()
		require.Contains(t, page, "<bdi>"+shown+"</bdi></a>", "%q", name)
	}
}

// A long name is clipped, and its whole text is there for the keyboard and the pointer.
func TestALongNameIsClipped(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 255)
	page := openPage(t, startOn(t, hostileAPI(long)), "queues", "").Body.String()
	require.Contains(t, page, `<bdi class="long" title="`+long+`">`+long+"</bdi></a>")
}

// The preview of a seek says how large a move can be and still be undone.
func TestThePreviewOfASeekSaysWhatCannotBeUndone(t *testing.T) {
	t.Parallel()
	s := startOn(t, hostileAPI("q"))
	require.Contains(t, openPage(t, s, "group?q=NAME&g=NAME&seek=beginning", "q").Body.String(), fmt.Sprintf("more than %d,000 partitions", audit.MaxUndoable/1000))
	require.NotContains(t, openPage(t, s, "group?q=NAME&g=NAME&seek=beginning&in=NAME", "q").Body.String(), ",000 partitions")
}
