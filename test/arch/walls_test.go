package arch_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// wall restricts a library to a few packages, so that replacing it affects no other package.
type wall struct {
	library  string   // an import path; paths below it are included
	packages []string // the packages that may import the library; packages below them are included
}

// walls also apply to test files, because a test that imports a library binds its package to the library as well.
var walls = []wall{
	{"github.com/spf13/viper", []string{"config"}},
	{"github.com/labstack/echo", []string{"pkg/httpapi", "pkg/dashboard"}},
	{"github.com/jackc/pgxlisten", []string{"pkg/postgres/listen"}},
	{"github.com/golang-migrate/migrate", []string{"pkg/postgres/migrate"}},
	{"github.com/fergusstrange/embedded-postgres", []string{"pkg/postgres/devdb"}},
	{"github.com/netresearch/go-cron", []string{"pkg/engine/schedule/when"}},
	{"go.opentelemetry.io", []string{"pkg/process/tracing", "pkg/engine/batch", "pkg/client", "test/integration"}},
	{"github.com/exaring/otelpgx", []string{"pkg/process/tracing"}},
	{"github.com/spf13/cobra", []string{"cmd/belfry", "pkg/cli", "test/integration"}},
}

// testLibraries are libraries that the server must not import.
var testLibraries = []string{
	"testing", "net/http/httptest", "github.com/stretchr/testify", "go.uber.org/goleak", "pgregory.net/rapid",
}

// below reports whether an import path is the library or below it.
func below(imported, library string) bool {
	return imported == library || strings.HasPrefix(imported, library+"/")
}

// wallBreaches reports libraries that are imported outside of their packages, and test libraries in the server.
func wallBreaches(files []source) []string {
	var complaints []string
	for _, file := range files {
		for _, imported := range file.imports {
			for _, w := range walls {
				inPackage := func(dir string) bool { return below(file.dir, dir) }
				if below(imported, w.library) && !slices.ContainsFunc(w.packages, inPackage) {
					complaints = append(complaints, fmt.Sprintf(
						"%s imports %s, but only %s may import it", file.path, imported, strings.Join(w.packages, " and ")))
				}
			}
			for _, library := range testLibraries {
				if below(imported, library) && file.production() {
					complaints = append(complaints, fmt.Sprintf("%s imports %s, which only tests may import", file.path, imported))
				}
			}
		}
	}
	return complaints
}

func TestLibrariesStayInTheirPackages(t *testing.T) {
	t.Parallel()
	holds(t, wallBreaches(repository(t)))
}
