"""The lab's workloads as live questions: events as they are due, rows with dates, a judge."""
