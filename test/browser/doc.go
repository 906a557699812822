// Package browser tests the dashboard in a real browser. The tests are JavaScript, in run.mjs: they open
// each page with and without data, dark and light, wide and narrow, and press every button once.
//
// The test here starts the servers and runs them. It needs node, npm and chromium, so it has the build tag
// installed. Nothing of this folder is part of the server.
package browser
