package notify_test

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/belfry-mq/belfry/pkg/dispatch/notify"
)

// A consumer waits for a message. The producer publishes first and announces
// second.
func Example() {
	notifier := notify.New[string]()
	defer notifier.Close()
	var messages atomic.Int64

	looked := make(chan struct{})
	go func() {
		<-looked
		messages.Add(1)
		notifier.Announce(time.Now(), notify.ByTimer, "orders")
	}()

	for {
		ticket := notifier.Ticket("orders")
		if messages.Load() > 0 {
			ticket.Close()
			fmt.Println("found")
			return
		}
		fmt.Println("nothing yet")
		close(looked)
		<-ticket.C()
		ticket.Close()
	}
	// Output:
	// nothing yet
	// found
}
