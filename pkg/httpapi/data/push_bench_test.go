package data_test

import (
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/httpapi/data"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
)

// BenchmarkPushDecode reads and decodes the body of a push, with http.allow_any_json on and off.
func BenchmarkPushDecode(b *testing.B) {
	const order = `{"id":48211,"customer":{"name":"Zoë Müller","mail":"zoe@example.com"},"total":129.9,"currency":"EUR","paid":true,` +
		`"lines":[{"sku":"A-1001","count":2,"price":49.95},{"sku":"B-77","count":1,"price":30}],"note":"leave it at the door","at":"2026-05-16T08:41:27.512Z"}`
	emoji := strings.ReplaceAll(order, "leave it", `\ud83c\udf89 \"leave it\"\n`)
	for _, one := range []struct {
		name, payload string
		items         int
	}{
		{"tiny", `{"n":1}`, 1}, {"order", order, 1}, {"100 orders", order, 100}, {"100 orders with escapes", emoji, 100},
		{"text of 64 KiB", `{"text":"` + strings.Repeat("0123456789abcdef", 4096) + `"}`, 1},
		{"JSON in a string", `"` + strings.ReplaceAll(strings.Repeat(order, 100), `"`, `\"`) + `"`, 1},
		{"numbers", "[" + strings.Repeat("12.5,1e-7,48211,", 2000) + "0]", 1},
	} {
		items := make([]string, one.items)
		for i := range items {
			items[i] = fmt.Sprintf(`{"queue":"orders","partition":"p%d","transactionId":"0190f5fe-1c2b-7abc-8def-%012d","payload":%s}`, i, i, one.payload)
		}
		body := `{"items":[` + strings.Join(items, ",") + `]}`
		for _, anyJSON := range []bool{true, false} {
			b.Run(fmt.Sprintf("%s/any=%t", one.name, anyJSON), func(b *testing.B) {
				reader := wire.BodyReader{MaxBytes: 16 << 20, AnyJSON: anyJSON}
				from := strings.NewReader("")
				request := httptest.NewRequest("POST", "/api/v1/push", from)
				request.ContentLength = int64(len(body))
				c := echo.New().NewContext(request, httptest.NewRecorder())
				b.SetBytes(int64(len(body)))
				for b.Loop() {
					from.Reset(body)
					request.Body = io.NopCloser(from)
					read, err := reader.Read(c)
					if err == nil {
						_, err = data.ParsePush(read)
					}
					if err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
