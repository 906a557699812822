// Command kubeschemas writes test/deploy/schemas, the JSON schemas against which kubeconform checks the manifests of deploy. It makes
// them from the Go types of Kubernetes, of the Prometheus operator and of KEDA. A schema allows no unknown member. A member
// is required if its JSON tag has no omitempty, as in the API of Kubernetes.
//
// It is a module of its own, so Belfry does not depend on these types. Run it after a change of a version in its go.mod:
//
//	cd scripts/kubeschemas && go run . ../../test/deploy/schemas
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	keda "github.com/kedacore/keda/v2/apis/keda/v1alpha1"
	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// kinds are the kinds in the manifests.
var kinds = []any{
	core.Namespace{}, core.Service{}, core.ServiceAccount{}, core.ConfigMap{}, core.Secret{},
	apps.Deployment{}, apps.StatefulSet{}, batch.Job{}, policy.PodDisruptionBudget{}, networking.NetworkPolicy{}, networking.Ingress{},
	monitoring.ServiceMonitor{}, monitoring.PrometheusRule{}, keda.ScaledObject{}, keda.TriggerAuthentication{},
}

type schema = map[string]any

// scalars are the types whose JSON is no object.
var scalars = map[reflect.Type]schema{
	reflect.TypeFor[meta.Time]():          {"type": []string{"string", "null"}},
	reflect.TypeFor[meta.MicroTime]():     {"type": []string{"string", "null"}},
	reflect.TypeFor[meta.Duration]():      {"type": "string"},
	reflect.TypeFor[meta.FieldsV1]():      {"type": "object"},
	reflect.TypeFor[resource.Quantity]():  {"type": []string{"string", "number"}},
	reflect.TypeFor[intstr.IntOrString](): {"type": []string{"string", "integer"}},
	reflect.TypeFor[[]byte]():             {"type": "string"},
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: kubeschemas FOLDER")
		os.Exit(2)
	}
	for _, kind := range kinds {
		if err := write(os.Args[1], reflect.TypeOf(kind)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// write writes the schema of a kind.
func write(folder string, kind reflect.Type) error {
	definitions := map[string]schema{}
	root := of(kind, definitions)
	root["$schema"] = "http://json-schema.org/draft-07/schema#"
	root["definitions"] = definitions
	root["$comment"] = "Made by scripts/kubeschemas from " + kind.PkgPath()
	text, err := json.Marshal(root)
	if err != nil {
		return fmt.Errorf("encoding the schema of %s: %w", kind.Name(), err)
	}
	if err := os.WriteFile(filepath.Join(folder, strings.ToLower(kind.Name())+".json"), append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("writing the schema of %s: %w", kind.Name(), err)
	}
	return nil
}

// of returns the schema of a type. The schema of a struct becomes a definition.
func of(t reflect.Type, definitions map[string]schema) schema {
	if known, ok := scalars[t]; ok {
		return known
	}
	switch t.Kind() {
	case reflect.Pointer:
		return of(t.Elem(), definitions)
	case reflect.String:
		return schema{"type": "string"}
	case reflect.Bool:
		return schema{"type": "boolean"}
	case reflect.Float32, reflect.Float64:
		return schema{"type": "number"}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint32, reflect.Uint64:
		return schema{"type": "integer"}
	case reflect.Slice:
		return schema{"type": "array", "items": of(t.Elem(), definitions)}
	case reflect.Map:
		return schema{"type": "object", "additionalProperties": of(t.Elem(), definitions)}
	case reflect.Struct:
		name := strings.NewReplacer("/", ".", "github.com", "", "k8s.io", "").Replace(t.PkgPath()) + "." + t.Name()
		if _, ok := definitions[name]; !ok {
			one := schema{"type": "object", "additionalProperties": false}
			definitions[name] = one // before its members: types may be recursive
			properties, required := schema{}, []string{}
			members(t, properties, &required, definitions)
			one["properties"] = properties
			if len(required) > 0 {
				one["required"] = required
			}
		}
		return schema{"$ref": "#/definitions/" + name}
	default:
		return schema{}
	}
}

// members adds the members of a struct. The members of an inlined struct are members of the outer struct.
func members(t reflect.Type, properties schema, required *[]string, definitions map[string]schema) {
	for i := range t.NumField() {
		field := t.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-" || !field.IsExported():
		case name == "" && field.Anonymous:
			inlined := field.Type
			if inlined.Kind() == reflect.Pointer {
				inlined = inlined.Elem()
			}
			members(inlined, properties, required, definitions)
		default:
			if name == "" {
				name = field.Name
			}
			properties[name] = of(field.Type, definitions)
			if !strings.Contains(options, "omitempty") && !strings.Contains(options, "omitzero") {
				*required = append(*required, name)
			}
		}
	}
}
