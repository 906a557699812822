//go:build linux || darwin

package doctor

import "syscall"

// diskRoom returns the free bytes and the total bytes of the disk of folder.
func diskRoom(folder string) (free, all uint64, err error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(folder, &s); err != nil {
		return 0, 0, err
	}
	block := uint64(s.Bsize) //nolint:gosec // a size is positive
	return s.Bavail * block, s.Blocks * block, nil
}
