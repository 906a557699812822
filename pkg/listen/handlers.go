package listen

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// handler adapts the reader to pgxlisten, for Channel.
type handler struct{ *reader }

// HandleBacklog is called once LISTEN has taken effect.
func (h handler) HandleBacklog(ctx context.Context, _ string, _ *pgx.Conn) error {
	h.listenStarted(ctx)
	return nil
}

// HandleNotification is called with each notification.
func (h handler) HandleNotification(_ context.Context, n *pgconn.Notification, _ *pgx.Conn) error {
	h.handle(n.Payload)
	return nil
}

// inboxHandler handles InboxChannel.
type inboxHandler struct{ *Listener }

// HandleBacklog is called once LISTEN has taken effect on InboxChannel.
func (h inboxHandler) HandleBacklog(context.Context, string, *pgx.Conn) error {
	h.notifyInbox()
	return nil
}

// HandleNotification is called with each notification.
func (h inboxHandler) HandleNotification(context.Context, *pgconn.Notification, *pgx.Conn) error {
	h.notifyInbox()
	return nil
}

// sqlWaiterHandler handles AwaitChannel.
type sqlWaiterHandler struct{ *Listener }

// HandleBacklog is called once LISTEN has taken effect on AwaitChannel.
func (h sqlWaiterHandler) HandleBacklog(context.Context, string, *pgx.Conn) error {
	h.askAgain()
	return nil
}

// HandleNotification is called with each notification.
func (h sqlWaiterHandler) HandleNotification(_ context.Context, n *pgconn.Notification, _ *pgx.Conn) error {
	h.awaitWaiter(n.Payload)
	return nil
}
