package history

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Figures describe this process.
type Figures struct {
	// CPUUser and CPUSystem are in percent of one core, measured since the last sample.
	CPUUser    float64 `json:"cpu_user"`
	CPUSystem  float64 `json:"cpu_system"`
	RSSBytes   int64   `json:"rss_bytes"`
	HeapBytes  int64   `json:"heap_bytes"`
	Goroutines int64   `json:"goroutines"`
	PoolSize   int64   `json:"pool_size"`
	PoolIdle   int64   `json:"pool_idle"`
	PoolActive int64   `json:"pool_active"`
}

// sampler measures Figures. The zero value is ready.
type sampler struct {
	at           time.Time
	user, system time.Duration
}

func (s *sampler) sample(now time.Time, pool func() (size, idle, active int64)) Figures {
	user, system := CPUTimes()
	rss, heap := Memory()
	f := Figures{RSSBytes: rss, HeapBytes: heap, Goroutines: int64(runtime.NumGoroutine())}
	if span := now.Sub(s.at); span > 0 && !s.at.IsZero() {
		f.CPUUser, f.CPUSystem = 100*(user-s.user).Seconds()/span.Seconds(), 100*(system-s.system).Seconds()/span.Seconds()
	}
	f.PoolSize, f.PoolIdle, f.PoolActive = pool()
	s.at, s.user, s.system = now, user, system
	return f
}

// Memory returns the resident memory and the heap of this process, in bytes. Without /proc, resident is the memory
// that the Go runtime obtained from the operating system.
func Memory() (resident, heap int64) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	resident, heap = int64(m.Sys), int64(m.HeapAlloc)
	if text, err := os.ReadFile("/proc/self/statm"); err == nil {
		if fields := strings.Fields(string(text)); len(fields) > 1 {
			if pages, err := strconv.ParseInt(fields[1], 10, 64); err == nil {
				resident = pages * int64(os.Getpagesize())
			}
		}
	}
	return resident, heap
}
