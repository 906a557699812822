package main

import "fmt"

// chosen selects the instances, chosenQueue also the queues, and chosenGroup also the groups that the reader chose.
const (
	chosen      = `instance=~"$instance"`
	chosenQueue = chosen + `,queue=~"$queue"`
	chosenGroup = chosenQueue + `,group=~"$group"`
)

// of returns a metric of the chosen instances. more has further matchers.
func of(metric string, more ...string) string {
	text := chosen
	for _, m := range more {
		text += "," + m
	}
	return metric + "{" + text + "}"
}

// perSecond returns the rate of a counter.
func perSecond(counter string) string { return "rate(" + counter + "[$__rate_interval])" }

// total returns the rate of a counter, summed over the instances and over all labels except by.
func total(counter, by string) string {
	if by == "" {
		return "sum(" + perSecond(counter) + ")"
	}
	return fmt.Sprintf("sum by (%s) (%s)", by, perSecond(counter))
}

// each returns one query with the rate of a counter for each value of a label.
func each(counter, label string) query { return query{total(of(counter), label), "{{" + label + "}}"} }

// rateOf returns one query with the rate of a counter for each instance.
func rateOf(counter, legend string) query {
	return query{total(of(counter), "instance"), legend + " {{instance}}"}
}

// gauge returns one query with a value of each instance.
func gauge(metric, legend string) query { return query{of(metric), legend + " {{instance}}"} }

// quantile returns a quantile of a histogram, for each value of the labels by.
func quantile(q float64, histogram, by, legend string, more ...string) query {
	labels := "le"
	if by != "" {
		labels += ", " + by
	}
	return query{fmt.Sprintf("histogram_quantile(%g, %s)", q, total(of(histogram+"_bucket", more...), labels)), legend}
}

// mean returns the mean of a histogram, for each value of a label.
func mean(histogram, by string) query {
	return query{total(of(histogram+"_sum"), by) + " / " + total(of(histogram+"_count"), by), "{{" + by + "}}"}
}

// stored returns a value of queues. All instances report the same value.
func stored(metric string) query {
	return query{fmt.Sprintf("max by (queue) (%s{%s})", metric, chosenQueue), "{{queue}}"}
}

// ofGroup returns a value of groups. All instances report the same value.
func ofGroup(metric string) query {
	return query{fmt.Sprintf("max by (queue, group) (%s{%s})", metric, chosenGroup), "{{queue}} {{group}}"}
}

// ofQueue returns the rate of a counter of queues, summed over the instances.
func ofQueue(counter string) query {
	return query{total(counter+"{"+chosenQueue+"}", "queue"), "{{queue}}"}
}

// shared returns a value that all instances report.
func shared(metric, legend string) query { return query{"max(" + of(metric) + ")", legend} }
