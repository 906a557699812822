//go:build !linux && !darwin

package doctor

import "errors"

// diskRoom returns the free bytes and the total bytes of the disk of folder.
func diskRoom(string) (free, all uint64, err error) {
	return 0, 0, errors.New("the free space of a disk cannot be read on this operating system")
}
