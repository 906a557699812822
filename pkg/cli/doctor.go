package cli

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/belfry-mq/belfry/pkg/cli/answer"
	"github.com/belfry-mq/belfry/pkg/cli/request"
	"github.com/belfry-mq/belfry/pkg/cli/session"
	"github.com/belfry-mq/belfry/pkg/client"
)

// ErrNoDatabase means that no database is configured.
var ErrNoDatabase = errors.New("no database is configured")

// ExamineFunc examines the configured database without a server. It returns the answer of GET /api/v1/doctor, or
// ErrNoDatabase. noServer is the reason why no server was examined. wanted means that the user named a server.
type ExamineFunc func(cmd *cobra.Command, noServer string, wanted bool) ([]byte, error)

// NewDoctor returns the command doctor. It asks a server, or calls examine if no server answers.
func NewDoctor(examine ExamineFunc) *cobra.Command {
	var strict bool
	cmd := &cobra.Command{
		Use: "doctor", Short: "Find problems of the server and its database, and their remedies", Args: cobra.NoArgs, GroupID: GroupID,
		Long: `Examine the server and its database: versions, LISTEN, long transactions, connections, replication, rights, settings that
lose data, keys, the sequencer, rejected messages, late groups and more. The output begins with the problems, each with
its consequence and its remedy. docs/runbook.md has a section for each check.

With --database-url, only the database is examined. This also happens if the server does not answer and a database is
configured. The checks of the server are then unknown.

The exit code is 1 if a check found a problem, and otherwise 0. Warnings count only with --strict.`,
		Example: `  belfry doctor
  belfry doctor --database-url postgres://user@db/app --strict -o json`,
		RunE: session.Run(func(s *session.Session, _ []string) error {
			return doctor(s, examine, strict)
		}),
	}
	session.AddFlags(cmd)
	cmd.Flags().BoolVar(&strict, "strict", false, "exit with 1 for warnings too")
	return cmd
}

func doctor(s *session.Session, examine ExamineFunc, strict bool) error {
	raw, err := report(s, examine)
	if err != nil {
		return err
	}
	found, err := answer.ReadReport(raw)
	if err != nil {
		return err
	}
	if s.IsTable() {
		err = s.Text(found.Text())
	} else {
		err = s.Answer(raw, "checks", "")
	}
	if err == nil && found.Fails(strict) {
		return &session.ExitError{Code: 1}
	}
	return err
}

// report returns the report of the server, or the report of examine.
func report(s *session.Session, examine ExamineFunc) (raw []byte, err error) {
	if s.Cmd.Flags().Changed("database-url") {
		return examine(s.Cmd, "--database-url names a database", false)
	}
	err = s.Client.Do(s.Cmd.Context(), request.Get("/api/v1/doctor", nil), &raw)
	if err == nil || s.Cmd.Context().Err() != nil || errors.Is(err, client.ErrUnauthorized) || errors.Is(err, client.ErrForbidden) {
		return raw, err
	}
	raw, direct := examine(s.Cmd, "the server at "+s.Server+" gave no answer: "+err.Error(), s.Server != session.DefaultServer)
	if errors.Is(direct, ErrNoDatabase) {
		return nil, err
	}
	return raw, direct
}
