// Command franzmember is franz-go as a member of a consumer group.
package main

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"

	"odradek/clients/member"
)

var balancers = map[string]kgo.GroupBalancer{
	"range":              kgo.RangeBalancer(),
	"roundrobin":         kgo.RoundRobinBalancer(),
	"sticky":             kgo.StickyBalancer(),
	"cooperative-sticky": kgo.CooperativeStickyBalancer(),
}

func options(job member.Job) []kgo.Opt {
	saying := func(what string) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			member.Holds(what, partitions[job.Topic])
		}
	}
	chosen := []kgo.Opt{
		kgo.SeedBrokers(job.Bootstrap),
		kgo.ConsumerGroup(job.Group),
		kgo.ConsumeTopics(job.Topic),
		kgo.Balancers(balancers[job.Assignor]),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(member.FetchWait),
		kgo.SessionTimeout(job.Session()),
		kgo.HeartbeatInterval(member.Heartbeat),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(), // so that what was read is committed before it is given up
		kgo.OnPartitionsAssigned(saying("assigned")),
		kgo.OnPartitionsRevoked(saying("revoked")),
		kgo.OnPartitionsLost(saying("revoked")),
	}
	if job.Instance != "" {
		chosen = append(chosen, kgo.InstanceID(job.Instance))
	}
	return chosen
}

func be(ctx context.Context, job member.Job) error {
	client, err := kgo.NewClient(options(job)...)
	if err != nil {
		return err
	}
	defer client.CloseAllowingRebalance()
	for ctx.Err() == nil {
		fetches := client.PollFetches(ctx)
		fetches.EachRecord(func(record *kgo.Record) {
			member.Say("got", record.Partition, record.Offset)
		})
		if fetches.NumRecords() > 0 {
			if err := client.CommitUncommittedOffsets(context.Background()); err != nil {
				member.Say("error", err)
			}
		}
		client.AllowRebalance()
	}
	return nil
}

func main() {
	member.Run(be)
}
