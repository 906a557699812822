// Package queen has the routes and answers that exist only because Queen MQ 0.15 has them: its clients and dashboard call
// them, and no command, page, client or guide of Belfry needs them. docs/compatibility.md lists them.
//
// Only pkg/httpapi imports it, so that it can be removed as a whole: with the function queenRoutes of the route table, and
// the members shared_state and queen of GET /health. What it has in common with other routes, it takes from observe.
//
// It promises that each answer has the shape that clients of Queen MQ read. What Belfry does not have is 0 or empty.
package queen
