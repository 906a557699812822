package queue

import (
	"errors"
	"fmt"
)

func check(ok bool, format string, args ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf(format, args...)
}

func join(errs ...error) error { return errors.Join(errs...) }
