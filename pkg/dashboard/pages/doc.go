// Package pages has the pages of the dashboard. Each page reads the data of its template.
//
// A page reads a bounded number of rows and lists at most some hundred of them. A longer list has a next page.
// Only pkg/dashboard may import this package.
package pages
