package page

// GroupPath returns the path of the API for a group in a queue.
func GroupPath(group, queue string) string {
	return "/api/v1/consumer-groups/" + Esc(group) + "/queues/" + Esc(queue)
}

// SeekPath returns the path of the API that previews a seek of a group. to is beginning, end or time. at is the instant for
// time. An empty partition means all partitions.
func SeekPath(group, queue, to, at, partition string) string {
	target := []string{"partition", partition, "timestamp", at}
	switch to {
	case "beginning":
		target = []string{"partition", partition, "toBeginning", "true"}
	case "end":
		target = []string{"partition", partition, "toEnd", "true"}
	}
	return string(Link(GroupPath(group, queue)+"/seek", target...))
}
