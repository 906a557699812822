package session

import (
	"cmp"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-mq/belfry/pkg/cli/contexts"
	"github.com/belfry-mq/belfry/pkg/cli/outage"
	"github.com/belfry-mq/belfry/pkg/cli/output"
	"github.com/belfry-mq/belfry/pkg/client"
)

// DefaultServer is the server if neither a flag, a variable nor a context names one.
const DefaultServer = "http://localhost:6632"

// Session has the client, the printer and the common flags of a command.
type Session struct {
	Cmd    *cobra.Command
	Client *client.Client
	Server string
	// Outages writes a line when the client waits for a server.
	Outages *outage.Notice
	*output.Printer
	// DryRun is the flag --dry-run: the command must change nothing.
	yes, DryRun bool
}

// These values are the time for which a request is repeated while no server is available.
const (
	// NoRetry is for interactive commands: the request is not repeated.
	NoRetry  time.Duration = -1
	patience               = 30 * time.Second
)

// AddFlags adds the flags that most commands have.
func AddFlags(cmd *cobra.Command) {
	AddServerFlags(cmd)
	AddOutputFlags(cmd)
}

// Target is the server of a command, with the token and the CA file for its requests.
type Target struct {
	// Server has one URL, or several URLs separated by commas.
	Server string
	// Token is sent only to Server. It may be empty.
	Token string
	// CAFile is a PEM file, or empty for the CAs of this machine.
	CAFile string
}

// text returns the value of a flag of AddServerFlags, or of an environment variable if the flag is empty.
func text(cmd *cobra.Command, flag, variable string) string {
	value, _ := cmd.Flags().GetString(flag) // AddServerFlags added it
	return cmp.Or(value, os.Getenv(variable))
}

func serverNamed(cmd *cobra.Command) string { return text(cmd, "server", "BELFRY_SERVER") }

func contextNamed(cmd *cobra.Command) string { return text(cmd, "context", "BELFRY_CONTEXT") }

// NamesServer reports whether a flag or a variable names a server or a context.
func NamesServer(cmd *cobra.Command) bool { return serverNamed(cmd) != "" || contextNamed(cmd) != "" }

// TargetOf returns the server that the flags of AddServerFlags, the environment variables and the contexts file
// select.
func TargetOf(cmd *cobra.Command) (Target, error) {
	saved, err := contexts.Load()
	if err != nil {
		return Target{}, err
	}
	chosen, err := saved.Get(contextNamed(cmd))
	if err != nil {
		return Target{}, UsageError(err.Error())
	}
	t := Target{
		Server: cmp.Or(serverNamed(cmd), chosen.Server, DefaultServer), Token: text(cmd, "token", "BELFRY_TOKEN"),
		CAFile: cmp.Or(text(cmd, "ca-file", "BELFRY_CA_FILE"), chosen.CAFile),
	}
	if t.Token == "" && t.Server == cmp.Or(chosen.Server, t.Server) {
		t.Token = chosen.Token // the token of a context is sent only to the server of the context
	}
	return t, nil
}

// AddServerFlags adds the flags that choose a server.
func AddServerFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.String("server", "", "URLs of the servers, separated by commas (env BELFRY_SERVER; else the context; else "+DefaultServer+")")
	flags.String("token", "", "token for the server (env BELFRY_TOKEN; else the context)")
	flags.String("context", "", "the context to use instead of the current one (env BELFRY_CONTEXT)")
	flags.String("ca-file", "", "PEM file with the CA of an https server (default: the CAs of this machine) (env BELFRY_CA_FILE)")
	_ = cmd.RegisterFlagCompletionFunc("context", CompleteContexts)
}

// AddOutputFlags adds the flags that choose the output.
func AddOutputFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringP("output", "o", "table", "output: "+strings.Join(output.Formats, ", ")+" or jsonpath=EXPRESSION")
	flags.BoolP("quiet", "q", false, "print nothing but errors")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(output.Formats, cobra.ShellCompDirectiveNoFileComp))
}

// PrinterOf reads the flags of AddOutputFlags.
func PrinterOf(cmd *cobra.Command) (*output.Printer, error) {
	format, err := cmd.Flags().GetString("output")
	if err != nil {
		format = "table" // the command has no flag --output
	}
	quiet, _ := cmd.Flags().GetBool("quiet") // false if the command has no flag --quiet
	out, err := output.New(cmd.OutOrStdout(), format, quiet, IsTerminal(cmd.OutOrStdout()))
	if err != nil {
		return nil, UsageError(err.Error())
	}
	return out, nil
}

// Run returns the RunE of a command. RunE reads the common flags and calls do. Requests are not repeated.
func Run(do func(s *Session, args []string) error) func(*cobra.Command, []string) error {
	return run(do, NoRetry)
}

// RunPatient is Run for commands that run for a long time. Their requests are repeated for 30 s while no server is
// available.
func RunPatient(do func(s *Session, args []string) error) func(*cobra.Command, []string) error {
	return run(do, patience)
}

func run(do func(s *Session, args []string) error, retryFor time.Duration) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		s, err := open(cmd, retryFor)
		if err != nil {
			return err
		}
		return do(s, args)
	}
}

func open(cmd *cobra.Command, retryFor time.Duration) (*Session, error) {
	is := func(flag string) bool {
		value, err := cmd.Flags().GetBool(flag)
		return err == nil && value
	}
	out, err := PrinterOf(cmd)
	if err != nil {
		return nil, err
	}
	s := &Session{Cmd: cmd, Printer: out, yes: is("yes"), DryRun: is("dry-run")}
	target, err := TargetOf(cmd)
	if err != nil {
		return nil, err
	}
	s.Server = target.Server
	s.Outages = outage.New(cmd.ErrOrStderr())
	s.Client, err = NewClient(s.Server, target.Token, target.CAFile, retryFor, s.Outages.Report)
	return s, err
}

// NewClient returns a client. servers has URLs separated by commas. token and caFile may be "", and onOutage may be
// nil.
func NewClient(servers, token, caFile string, retryFor time.Duration, onOutage func(client.Outage)) (*client.Client, error) {
	config := client.Config{URLs: strings.Split(servers, ","), RetryFor: retryFor, OnOutage: onOutage}
	if token != "" {
		config.Token = client.StaticToken(token)
	}
	if caFile != "" {
		trusting, err := contexts.Trust(caFile)
		if err != nil {
			return nil, err
		}
		config.HTTPClient = trusting
	}
	made, err := client.New(config)
	if err != nil {
		return nil, UsageError(err.Error())
	}
	return made, nil
}
