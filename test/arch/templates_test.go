package arch_test

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// maxTemplateLine is how many characters a line of a template has at most.
const maxTemplateLine = 160

// templateBreaches complains about long lines of a template.
func templateBreaches(name, text string) []string {
	var complaints []string
	for i, line := range strings.Split(text, "\n") {
		if n := utf8.RuneCountInString(line); n > maxTemplateLine {
			complaints = append(complaints, fmt.Sprintf(
				"%s:%d has %d characters, the limit is %d: split the line, or make a partial of a repeated piece", name, i+1, n, maxTemplateLine))
		}
	}
	return complaints
}

// Templates are read by people, and a diff shows whole lines.
func TestTemplateLinesAreShort(t *testing.T) {
	t.Parallel()
	const folder = "pkg/dashboard/page/templates"
	require.Len(t, templateBreaches("x.html", strings.Repeat("ü", maxTemplateLine)+"\n"+strings.Repeat("x", maxTemplateLine+1)), 1)
	files, err := os.ReadDir(filepath.Join(root, folder))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(root, folder, file.Name()))
		require.NoError(t, err)
		holds(t, templateBreaches(path.Join(folder, file.Name()), string(text)))
	}
}
