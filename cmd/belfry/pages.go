//go:build pages

package main

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/belfry-mq/belfry/pkg/app"
)

// addPages adds the hidden command pages, which writes the manual pages and the shell completions of a release.
func addPages(root *cobra.Command) {
	root.AddCommand(&cobra.Command{
		Use:    "pages DIR",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE:   func(_ *cobra.Command, args []string) error { return writePages(root, args[0]) },
	})
}

// writePages writes a manual page for each command to dir/man, and a completion for each shell to dir/completions. The date of
// the pages is SOURCE_DATE_EPOCH.
func writePages(root *cobra.Command, dir string) error {
	man, completions := filepath.Join(dir, "man"), filepath.Join(dir, "completions")
	for _, folder := range []string{man, completions} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
	}
	root.DisableAutoGenTag = true
	if err := doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "belfry " + app.Version(), Manual: "Belfry"}, man); err != nil {
		return err
	}
	for name, write := range map[string]func(path string) error{
		"belfry.bash": func(path string) error { return root.GenBashCompletionFileV2(path, true) },
		"_belfry":     root.GenZshCompletionFile,
		"belfry.fish": func(path string) error { return root.GenFishCompletionFile(path, true) },
		"belfry.ps1":  root.GenPowerShellCompletionFileWithDesc,
	} {
		if err := write(filepath.Join(completions, name)); err != nil {
			return err
		}
	}
	return nil
}
