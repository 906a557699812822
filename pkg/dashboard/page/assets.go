package page

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
)

//go:embed assets
var assetFiles embed.FS

// loader is the script that starts the others. It is the same in each version; see Asset.
const loader = "app.js"

// assets has the content of each file of the folder assets. edition is a hash of all of them.
var assets, edition = readAssets()

func readAssets() (files map[string][]byte, edition string) {
	files = map[string][]byte{}
	sum := sha256.New()
	entries, err := assetFiles.ReadDir("assets") // sorted by name
	for _, entry := range entries {
		var content []byte
		if content, err = fs.ReadFile(assetFiles, "assets/"+entry.Name()); err != nil {
			break
		}
		files[entry.Name()] = content
		size := sha256.Sum256(content)
		sum.Write([]byte(entry.Name()))
		sum.Write(size[:])
	}
	if err != nil { // the files are embedded
		panic(err)
	}
	return files, hex.EncodeToString(sum.Sum(nil)[:12])
}

// assetPath returns the path of a file, relative to the folder of the pages. The edition is a folder of the path. So the scripts
// of a page import each other from the same edition, and a page never gets files of two editions.
func assetPath(name string) string { return "assets/" + edition + "/" + name }

// Asset returns a file of an edition, or nil. A file of another edition is nil, because its content would be wrong. The exception
// is the loader: it loads the page again until one server has all files of the edition. forever is true if the path always has
// this content.
func Asset(of, name string) (content []byte, forever bool) {
	if of != edition && name != loader {
		return nil, false
	}
	return assets[name], of == edition
}
