package setting_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.yaml.in/yaml/v3"

	"github.com/belfry-mq/belfry/config/setting"
)

const mark = "S3cr3t"

// holder has a secret in each kind of field.
type holder struct {
	Plain   setting.Secret
	Pointer *setting.Secret
	List    []setting.Secret
	Map     map[string]setting.Secret
	Any     any
}

func newHolder() holder {
	s := setting.Secret(mark)
	return holder{s, &s, []setting.Secret{s}, map[string]setting.Secret{"a": s}, s}
}

func TestSecretIsNeverPrinted(t *testing.T) {
	t.Parallel()
	s, h := setting.Secret(mark), newHolder()
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T %v", "%10v", "%-3s", "%!", "%t"} {
		for _, value := range []any{s, &s, h, &h, []any{h}} {
			_, _ = fmt.Fprintf(&out, verb+"\n", value, value)
		}
	}
	_, _ = fmt.Fprintln(&out, s, h, fmt.Sprint(s), fmt.Errorf("%w: %v", errors.ErrUnsupported, h))
	for _, encode := range []func(any) ([]byte, error){
		json.Marshal, yaml.Marshal, func(v any) ([]byte, error) { return jsonv2.Marshal(v) },
	} {
		encoded, err := encode(h)
		require.NoError(t, err)
		out.Write(encoded)
	}
	encoded, err := xml.Marshal(s)
	require.NoError(t, err)
	out.Write(encoded)
	for _, handler := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(handler).Error("a line", "one", s, "all", h)
	}
	for _, encoder := range []zapcore.Encoder{
		zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.NewConsoleEncoder(zap.NewDevelopmentEncoderConfig()),
	} {
		log := zap.New(zapcore.NewCore(encoder, zapcore.AddSync(&out), zap.DebugLevel))
		log.Error("a line", zap.Any("one", s), zap.Any("all", h), zap.Stringer("text", s), zap.Reflect("deep", h))
		log.Sugar().Errorf("%v %+v %#v", h, h, h)
	}
	require.NotContains(t, out.String(), mark)
	require.NotContains(t, out.String(), fmt.Sprintf("%x", mark))
	require.NotContains(t, out.String(), fmt.Sprintf("%X", mark))
	require.Equal(t, mark, s.Reveal())
}

// When a program panics with a Secret, the runtime prints the result of String.
func TestPanicPrintsNoSecret(t *testing.T) {
	t.Parallel()
	defer func() {
		shown, ok := recover().(fmt.Stringer)
		require.True(t, ok)
		require.Equal(t, setting.Hidden, shown.String())
	}()
	panic(setting.Secret(mark))
}
