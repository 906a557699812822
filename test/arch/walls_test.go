package arch_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// wall restricts a library to a few packages, so that replacing it affects no other package.
type wall struct {
	library  string   // an import path and everything below it
	packages []string // the packages that may import it, with the packages inside them
}

// walls also hold in test files, because tests would bind other packages to the library as well.
var walls = []wall{
	{"github.com/spf13/viper", []string{"config"}},
	{"github.com/labstack/echo", []string{"pkg/httpapi", "pkg/dashboard"}},
	{"github.com/jackc/pgxlisten", []string{"pkg/postgres/listen"}},
	{"github.com/golang-migrate/migrate", []string{"pkg/postgres/migrate"}},
	{"github.com/fergusstrange/embedded-postgres", []string{"pkg/postgres/devdb"}},
	{"github.com/spf13/cobra", []string{"cmd/belfry", "pkg/cli", "test/integration"}},
}

// testLibraries must not be part of the server. The only exception is signalPackage, which provides signals to tests and
// uses testing.TB.
var testLibraries = []string{
	"testing", "net/http/httptest", "github.com/stretchr/testify", "go.uber.org/goleak", "pgregory.net/rapid",
}

const signalPackage = "pkg/testsignal"

// below reports whether an import path is the library or below it.
func below(imported, library string) bool {
	return imported == library || strings.HasPrefix(imported, library+"/")
}

// wallBreaches reports libraries outside of their packages, and test libraries in the server.
func wallBreaches(files []source) []string {
	var complaints []string
	for _, file := range files {
		for _, imported := range file.imports {
			for _, w := range walls {
				inPackage := func(dir string) bool { return below(file.dir, dir) }
				if below(imported, w.library) && !slices.ContainsFunc(w.packages, inPackage) {
					complaints = append(complaints, fmt.Sprintf(
						"%s imports %s, which lives only in %s", file.path, imported, strings.Join(w.packages, " and ")))
				}
			}
			for _, library := range testLibraries {
				if below(imported, library) && file.production() && file.dir != signalPackage {
					complaints = append(complaints, fmt.Sprintf("%s imports %s, which is for tests", file.path, imported))
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

func TestWallBreachesAreFound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		file, imports string
		want          string
	}{
		{"config/load.go", "github.com/spf13/viper", ""},
		{"config/load.go", "github.com/spf13/pflag", ""},
		{"pkg/app/app.go", "github.com/spf13/viper", "lives only in config"},
		{"pkg/app/app_test.go", "github.com/spf13/viper", "lives only in config"},
		{"pkg/dashboard/page.go", "github.com/labstack/echo/v4", ""},
		{"pkg/httpapi/wire/body.go", "github.com/labstack/echo/v4", ""},
		{"pkg/app/app.go", "github.com/labstack/echo/v4/middleware", "pkg/httpapi and pkg/dashboard"},
		{"pkg/app/app.go", "github.com/labstack/echo/v5", "pkg/httpapi and pkg/dashboard"},
		{"pkg/postgres/pool.go", "github.com/jackc/pgxlisten", "lives only in pkg/postgres/listen"},
		{"test/pgtest/pgtest.go", "github.com/golang-migrate/migrate/v4", "lives only in pkg/postgres/migrate"},
		{"test/pgtest/pgtest.go", "github.com/fergusstrange/embedded-postgres", "lives only in pkg/postgres/devdb"},
		{"config/load.go", "github.com/spf13/cobra", "lives only in cmd/belfry and pkg/cli"},
		{"pkg/queue/names.go", "testing", "is for tests"},
		{"pkg/queue/names.go", "github.com/stretchr/testify/require", "is for tests"},
		{"pkg/queue/id_test.go", "github.com/stretchr/testify/require", ""},
		{"test/pgtest/pgtest.go", "go.uber.org/goleak", ""},
		{"pkg/testsignal/signal.go", "testing", ""},
	} {
		file := sample(t, c.file, fmt.Sprintf("package x\n\nimport _ %q\n", c.imports))
		complaints := wallBreaches([]source{file})
		if c.want == "" {
			require.Empty(t, complaints, "%s importing %s", c.file, c.imports)
			continue
		}
		require.Len(t, complaints, 1, "%s importing %s", c.file, c.imports)
		require.Contains(t, complaints[0], c.want)
	}
}
