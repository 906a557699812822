package plan

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Report is the plan for an input.
type Report struct {
	Input            Input     `json:"input"`
	RetentionSeconds float64   `json:"retentionSeconds"`
	Needs            Needs     `json:"needs"`
	Machines         []Machine `json:"machines"`
}

// NewReport returns the plan for a valid input.
func NewReport(in Input) Report { return Report{in, in.Retention.Seconds(), Compute(in), Machines(in)} }

// WriteTable writes the plan for people.
func (r Report) WriteTable(w io.Writer) error {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	n := r.Needs
	for _, line := range [][3]string{
		{"NEED", "AMOUNT", "HOW"},
		{"Postgres cores", fmt.Sprint(n.PostgresCores), fmt.Sprintf("%.2f used, %.0f µs for a message", n.PostgresCPU, n.PostgresPerMessage)},
		{"Belfry cores", fmt.Sprint(n.ServerCores), fmt.Sprintf("%.2f used, %.0f µs for a message; all instances", n.ServerCPU, n.ServerPerMessage)},
		{"WAL", megabytes(n.WALBytesPerSecond) + "/s", "to disk, to each standby and to the archive"},
		{"syncs of the WAL", figure(n.SyncsPerSecond) + "/s", "each is a write that waits for the disk"},
		{"disk", gigabytes(n.DiskBytes), fmt.Sprintf("%s stored, times %.1f for old row versions, plus %s of WAL", gigabytes(n.StoredBytes), spare, gigabytes(walDisk))},
		{"memory of an instance", megabytes(n.InstanceBytes), fmt.Sprintf("%s in all for %d waiting requests", megabytes(n.WaitingBytes), r.Input.Waiting)},
		{"connections of Postgres", fmt.Sprint(n.Connections), fmt.Sprintf("%d for an instance, with the default settings", connectionsOfInstance)},
		{"network to Belfry", megabytes(n.InBytesPerSecond) + "/s", "bodies of requests"},
		{"network from Belfry", megabytes(n.OutBytesPerSecond) + "/s", "bodies of answers"},
	} {
		_, _ = fmt.Fprintln(table, strings.Join(line[:], "\t")) // writes to memory
	}
	_ = table.Flush()
	fmt.Fprintf(&text, "\nMachines with this mix, %d %% busy. Postgres and Belfry share the cores:\n\n", r.Input.Utilization)
	table = tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "CORES\tMESSAGES/S\tPOSTGRES\tBELFRY\tWAL/S\tSYNCS/S\tDISK/DAY\tBASIS")
	for _, m := range r.Machines {
		basis := "calculated"
		if m.Cores <= measuredCores {
			basis = "costs measured"
		}
		_, _ = fmt.Fprintf(table, "%d\t%s\t%.1f\t%.1f\t%s\t%s\t%s\t%s\n", m.Cores, figure(m.Rate), m.PostgresCPU, m.ServerCPU,
			megabytes(m.WALBytesPerSecond), figure(m.SyncsPerSecond), gigabytes(m.DiskBytesPerDay), basis)
	}
	_ = table.Flush()
	text.WriteString("\n" + notice + "\n")
	_, err := io.WriteString(w, text.String())
	return err
}

// measuredCores is the largest number of cores on which the costs were measured.
const measuredCores = 2

const notice = `The costs were measured on 1 and 2 cores (docs/sizing.md). Larger machines are calculated: the
calculation assumes that the cost of a message stays the same. Put your own load on a test
system before you rely on a number.`

// figure rounds a number to two digits, and groups its digits.
func figure(v float64) string {
	unit := 1.0
	for v/unit >= 100 {
		unit *= 10
	}
	digits := fmt.Sprintf("%.0f", float64(int64(v/unit+0.5))*unit)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

func megabytes(bytes float64) string { return scaled(bytes/1e6, "MB") }

func gigabytes(bytes float64) string { return scaled(bytes/1e9, "GB") }

// scaled prints small numbers with a decimal.
func scaled(v float64, unit string) string {
	if v < 10 {
		return fmt.Sprintf("%.1f %s", v, unit)
	}
	return figure(v) + " " + unit
}
