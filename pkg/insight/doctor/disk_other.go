//go:build !linux && !darwin

package doctor

import "errors"

// diskRoom returns the free and all bytes of the disk that has folder.
func diskRoom(string) (free, all uint64, err error) {
	return 0, 0, errors.New("the room of a disk is not known on this system")
}
