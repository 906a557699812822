package inbox

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/sql"
)

var sqlAdvanceIDs = sql.Query("inbox/ids_advance")

// AdvanceIDs moves the sequences of ids past those that are in use. They fall behind where
// rows came without them: a database that logical replication has filled is taken into
// use, or one was copied table by table. Called before anything is given an id: at the
// start, and by whoever becomes the sequencer, since that is what somebody does when the
// database becomes another one under servers that run. On conn it takes as long as a
// query of a few indexes, or until ctx ends; an error is that of the database. Who may not run it is told of
// the right that is missing, and goes on.
func AdvanceIDs(ctx context.Context, conn interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}, log *zap.Logger,
) error {
	var advanced []string
	err := conn.QueryRow(ctx, sqlAdvanceIDs).Scan(&advanced)
	if postgres.SQLState(err) == postgres.InsufficientPrivilege {
		log.Warn("it is not known whether ids would be given away again: this server may not ask; "+
			"GRANT EXECUTE ON FUNCTION belfry.advance_ids() to its role", zap.Error(err))
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking whether ids would be given away again: %w", err)
	}
	if len(advanced) > 0 {
		log.Warn("ids that are in use would have been given away again; their sequences were moved past them", zap.Strings("tables", advanced))
	}
	return nil
}
