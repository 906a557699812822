package main

import (
	"context"
	"errors"
	"time"

	"github.com/belfry-mq/belfry/test/chaos/check"
)

func judgeFully(ctx context.Context, e evidence) error {
	state, err := check.ReadState(ctx, e.database, e.queues)
	if err != nil {
		return err
	}
	o := check.Options{Bound: 3 * time.Second, LeaseDuration: 4 * time.Second}
	for _, w := range e.windows {
		o.Windows = append(o.Windows, check.Window{Begin: w.begin, End: w.recovered, Allowance: w.recovered - w.begin})
	}
	errs := []error{judgeCounts(ctx, e)}
	for _, v := range check.Run(e.operations, state, o) {
		errs = append(errs, errors.New(v.String()))
	}
	return errors.Join(errs...)
}
