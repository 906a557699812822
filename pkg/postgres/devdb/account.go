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

// fallbackID is the user id of Postgres if this process is root and the system has no user
// postgres and no user nobody. It is high enough to be unused, and needs no entry in /etc/passwd.
const fallbackID = 54321

// account is the user that Postgres runs as. The zero value is the user of this process.
// For root it is another user, because Postgres refuses to run as root.
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

// accountFor returns the account for a cluster with this data folder. For root, it is the
// owner of the folder, if the folder exists and its owner is not root.
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
		found := account{name: name, switched: true}
		if entry, err := user.Lookup(name); err == nil {
			if _, err := fmt.Sscan(entry.Uid+" "+entry.Gid, &found.uid, &found.gid); err == nil && found.uid != 0 {
				return found, nil
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

// processAttributes makes a child run as the account, without root's groups, and in a new process group. In a new group, the
// child does not receive the Ctrl-C of the terminal.
func (a account) processAttributes() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if a.switched {
		attr.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid}
	}
	return attr
}

// mkdir creates a private folder of the account.
func (a account) mkdir(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err // the error of os names the folder
	}
	if !a.switched {
		return nil
	}
	return os.Chown(dir, int(a.uid), int(a.gid))
}

// explain wraps a "permission denied": it names the folder that the account may not enter, and
// says what to do. It returns other errors unchanged.
func (a account) explain(err error, dir, binDir string) error {
	if !a.switched || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	if closed := a.closedParent(dir); closed != "" {
		return fmt.Errorf("the cluster folder %s is out of reach: Postgres runs as %s, and %s is closed to it; "+
			"choose another place (/var/lib/belfry/dev works) or run `chmod o+x %s`: %w", dir, a, closed, closed, err)
	}
	if closed := a.closedParent(binDir); closed != "" {
		return fmt.Errorf("the programs in %s are out of reach: Postgres runs as %s, and %s is closed to it; "+
			"run `chmod o+x %s` or set %s to another folder: %w", binDir, a, closed, closed, binDirVariable, err)
	}
	return err
}

// closedParent looks at dir and its parents. It returns the topmost folder whose mode bits forbid the account to enter, or "" if
// the account may enter all of them.
func (a account) closedParent(dir string) (closed string) {
	for dir = filepath.Clean(dir); ; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err == nil && !a.canTraverse(info) {
			closed = dir
		}
		if dir == filepath.Dir(dir) {
			return closed
		}
	}
}

func (a account) canTraverse(info fs.FileInfo) bool {
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
