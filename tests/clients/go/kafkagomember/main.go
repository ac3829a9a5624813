// Command kafkagomember is segmentio's kafka-go as a member of a consumer group.
package main

import (
	"context"

	"github.com/segmentio/kafka-go"

	"odradek/clients/member"
)

var balancers = map[string]kafka.GroupBalancer{
	"range":      kafka.RangeGroupBalancer{},
	"roundrobin": kafka.RoundRobinGroupBalancer{},
}

func be(ctx context.Context, job member.Job) error {
	group, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID:                job.Group,
		Brokers:           []string{job.Bootstrap},
		Topics:            []string{job.Topic},
		GroupBalancers:    []kafka.GroupBalancer{balancers[job.Assignor]},
		SessionTimeout:    job.Session(),
		HeartbeatInterval: member.Heartbeat,
		JoinGroupBackoff:  member.Heartbeat,
		StartOffset:       kafka.FirstOffset,
	})
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		generation, err := group.Next(ctx)
		if err != nil {
			continue // the library has logged it and tries again
		}
		take(generation, job)
	}
	return group.Close()
}

// take reads what a generation gives; the next one comes when all that was started here has ended.
func take(generation *kafka.Generation, job member.Job) {
	var partitions []int32
	for _, given := range generation.Assignments[job.Topic] {
		partitions = append(partitions, int32(given.ID))
	}
	member.Holds("assigned", partitions)
	generation.Start(func(ctx context.Context) {
		<-ctx.Done()
		member.Holds("revoked", partitions)
	})
	for _, given := range generation.Assignments[job.Topic] {
		generation.Start(func(ctx context.Context) { read(ctx, generation, job, given) })
	}
}

func read(
	ctx context.Context, generation *kafka.Generation, job member.Job, given kafka.PartitionAssignment,
) {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers:   []string{job.Bootstrap},
		Topic:     job.Topic,
		Partition: given.ID,
		MaxWait:   member.FetchWait,
	})
	defer reader.Close()
	if err := reader.SetOffset(given.Offset); err != nil {
		member.Say("error", err)
		return
	}
	for {
		message, err := reader.ReadMessage(ctx)
		if err != nil {
			return // the generation has ended
		}
		member.Say("got", message.Partition, message.Offset)
		next := map[string]map[int]int64{job.Topic: {given.ID: message.Offset + 1}}
		if err := generation.CommitOffsets(next); err != nil {
			member.Say("error", err)
		}
	}
}

func main() {
	member.Run(be)
}
