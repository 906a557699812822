// Package pages has the pages of the dashboard: each reads what its template shows.
//
// Each page reads a bounded number of rows and lists at most some hundred of them; a longer list has a
// next page. It may be imported by pkg/dashboard.
package pages
