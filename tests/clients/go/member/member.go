// Package member is what the Go members of consumer groups have in common: their arguments and the
// lines that tests/integration/group_member.py describes.
package member

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	Heartbeat = 500 * time.Millisecond
	FetchWait = 200 * time.Millisecond
)

// Job is what a member is to do; without an instance it is a dynamic member.
type Job struct {
	Bootstrap, Group, Topic, Assignor, Instance string
}

// Session is how long a member may be silent; a static one has the time to come back.
func (job Job) Session() time.Duration {
	if job.Instance != "" {
		return 30 * time.Second
	}
	return 6 * time.Second
}

// Say prints one line.
func Say(words ...any) {
	fmt.Println(words...)
}

// Holds prints which partitions were assigned or revoked.
func Holds(what string, partitions []int32) {
	sorted := slices.Sorted(slices.Values(partitions))
	Say(what, strings.Trim(strings.Join(strings.Fields(fmt.Sprint(sorted)), ","), "[]"))
}

// Run is a member until SIGTERM ends its context, which makes it leave in good order.
func Run(be func(context.Context, Job) error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	job := Job{Bootstrap: os.Args[1], Group: os.Args[2], Topic: os.Args[3], Assignor: os.Args[4]}
	if len(os.Args) > 5 {
		job.Instance = os.Args[5]
	}
	Say("ready")
	if err := be(ctx, job); err != nil {
		Say("error", err)
		os.Exit(1)
	}
	Say("closed")
}
