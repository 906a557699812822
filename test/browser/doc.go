// Package browser tests the dashboard in a real browser. The tests are JavaScript, in run.mjs. They open each page with and
// without data, in dark and light colors, in a wide and a narrow window. They press every button once.
//
// TestDashboard starts the servers and runs the JavaScript tests. It needs node, npm and chromium, so it has the build tag
// installed. Nothing in this folder is part of the server.
package browser
