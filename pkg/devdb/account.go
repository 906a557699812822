package devdb

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// fallbackID is the account for a root without the users postgres and nobody:
// high enough to belong to nobody. Postgres needs no entry in the user database.
const fallbackID = 54321

// account is whom Postgres runs as. The zero value is the user of this process;
// root gets another one, because Postgres refuses to run as root.
type account struct {
	name     string
	uid, gid uint32
	switched bool
}

func (a account) String() string {
	if !a.switched {
		return "this user"
	}
	return "user " + a.name
}

// accountFor chooses the account for the cluster whose data is, or will be, in
// data. Existing data stays with its owner.
func accountFor(data string) (account, error) {
	if os.Geteuid() != 0 {
		return account{}, nil
	}
	info, err := os.Stat(data)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return account{}, fmt.Errorf("looking at %s: %w", data, err)
	}
	if err == nil {
		if owner, ok := info.Sys().(*syscall.Stat_t); ok && owner.Uid != 0 {
			return account{name: userName(owner.Uid), uid: owner.Uid, gid: owner.Gid, switched: true}, nil
		}
	}
	for _, name := range []string{"postgres", "nobody"} {
		if found, err := user.Lookup(name); err == nil {
			uid, uidErr := strconv.ParseUint(found.Uid, 10, 32)
			gid, gidErr := strconv.ParseUint(found.Gid, 10, 32)
			if uidErr == nil && gidErr == nil && uid != 0 {
				return account{name: name, uid: uint32(uid), gid: uint32(gid), switched: true}, nil
			}
		}
	}
	return account{name: strconv.Itoa(fallbackID), uid: fallbackID, gid: fallbackID, switched: true}, nil
}

func userName(uid uint32) string {
	id := strconv.FormatUint(uint64(uid), 10)
	if found, err := user.LookupId(id); err == nil {
		return found.Username
	}
	return id
}

// processAttributes puts a child into a process group of its own, so that the
// Ctrl-C of a terminal reaches only us and we stop Postgres in order, and makes
// it run as the account, without the groups of root.
func (a account) processAttributes() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if a.switched {
		attr.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid}
	}
	return attr
}

// own makes a private folder that belongs to the account.
func (a account) own(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err // os names the folder
	}
	if !a.switched {
		return nil
	}
	return os.Chown(dir, int(a.uid), int(a.gid))
}

// explain turns "permission denied" for the account into the folder that is
// closed to it and what to do. Other errors stay as they are.
func (a account) explain(err error, dir, binDir string) error {
	if !a.switched || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	if closed := a.closedAbove(dir); closed != "" {
		return fmt.Errorf("the cluster folder %s is out of reach: Postgres runs as %s, and %s is closed to it; "+
			"choose another place (/var/lib/belfry/dev works) or run `chmod o+x %s`: %w", dir, a, closed, closed, err)
	}
	if closed := a.closedAbove(binDir); closed != "" {
		return fmt.Errorf("the programs in %s are out of reach: Postgres runs as %s, and %s is closed to it; "+
			"run `chmod o+x %s` or name other ones with %s: %w", binDir, a, closed, closed, binDirVariable, err)
	}
	return err
}

// closedAbove returns the topmost folder on the way to dir that the account may
// not pass, by its mode bits; empty when there is none.
func (a account) closedAbove(dir string) (closed string) {
	for dir = filepath.Clean(dir); ; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err == nil && !a.mayPass(info) {
			closed = dir
		}
		if dir == filepath.Dir(dir) {
			return closed
		}
	}
}

func (a account) mayPass(info fs.FileInfo) bool {
	bit := fs.FileMode(0o001)
	if owner, ok := info.Sys().(*syscall.Stat_t); ok {
		switch {
		case owner.Uid == a.uid:
			bit = 0o100
		case owner.Gid == a.gid:
			bit = 0o010
		}
	}
	return info.Mode()&bit != 0
}
