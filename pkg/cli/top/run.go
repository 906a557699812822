package top

import (
	"context"
	"errors"
	"io"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/belfry-mq/belfry/pkg/client"
)

// Run shows the screen until the user quits or ctx ends. name is the title; in and out are a terminal. If the event
// stream ends with a permanent error, such as client.ErrUnauthorized, Run ends and returns this error.
func Run(ctx context.Context, c *client.Client, name string, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	screen := tea.NewProgram(newModel(ctx, &server{c}, name, time.Now),
		tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out), tea.WithoutSignalHandler())
	ended := make(chan error, 1)
	ticking := make(chan struct{})
	go func() {
		defer close(ticking)
		tick(ctx, func() { screen.Send(clockMsg{}) })
	}()
	go func() {
		var last error
		for event, err := range c.Events(ctx) {
			if last = err; err != nil {
				screen.Send(brokenMsg{err})
			} else {
				screen.Send(eventMsg(event))
			}
		}
		if ctx.Err() != nil {
			last = nil
		}
		ended <- last
		screen.Quit()
	}()
	_, err := screen.Run()
	if errors.Is(err, tea.ErrProgramKilled) && ctx.Err() != nil {
		err = nil // Ctrl-C
	}
	cancel()
	<-ticking
	return errors.Join(err, <-ended)
}

// tick calls f once a second until ctx ends.
func tick(ctx context.Context, f func()) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			f()
		case <-ctx.Done():
			return
		}
	}
}
