// Command saramamember is sarama as a member of a consumer group.
package main

import (
	"context"

	"github.com/IBM/sarama"

	"odradek/clients/member"
)

var strategies = map[string]sarama.BalanceStrategy{
	"range":              sarama.NewBalanceStrategyRange(),
	"roundrobin":         sarama.NewBalanceStrategyRoundRobin(),
	"sticky":             sarama.NewBalanceStrategySticky(),
	"cooperative-sticky": sarama.NewBalanceStrategyCooperativeSticky(),
}

func configure(job member.Job) *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.V3_9_0_0
	config.Metadata.AllowAutoTopicCreation = false
	config.Consumer.MaxWaitTime = member.FetchWait
	config.Consumer.Return.Errors = true
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Group.InstanceId = job.Instance
	config.Consumer.Group.Session.Timeout = job.Session()
	config.Consumer.Group.Heartbeat.Interval = member.Heartbeat
	config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{
		strategies[job.Assignor],
	}
	return config
}

// reading is what a member does with what it is given.
type reading struct{}

func (reading) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (reading) Cleanup(sarama.ConsumerGroupSession) error { return nil }

// ConsumeClaim has one partition from when it is assigned until it is revoked, eagerly or not.
func (reading) ConsumeClaim(
	session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim,
) error {
	partition := []int32{claim.Partition()}
	member.Holds("assigned", partition)
	defer member.Holds("revoked", partition)
	for message := range claim.Messages() {
		member.Say("got", message.Partition, message.Offset)
		session.MarkMessage(message, "")
		// A commit waits behind the fetch on sarama's one connection: not after every record.
		if len(claim.Messages()) == 0 {
			session.Commit()
		}
	}
	return nil
}

func be(ctx context.Context, job member.Job) error {
	group, err := sarama.NewConsumerGroup([]string{job.Bootstrap}, job.Group, configure(job))
	if err != nil {
		return err
	}
	go func() {
		for failure := range group.Errors() {
			member.Say("error", failure)
		}
	}()
	for ctx.Err() == nil {
		if err := group.Consume(ctx, []string{job.Topic}, reading{}); err != nil {
			member.Say("error", err)
		}
	}
	return group.Close()
}

func main() {
	member.Run(be)
}
