// Command saramamember is sarama as a member of a consumer group.
package main

import (
	"context"

	"github.com/IBM/sarama"

	"odradek/clients/member"
)

var strategies = map[string]sarama.BalanceStrategy{
	"range":      sarama.NewBalanceStrategyRange(),
	"roundrobin": sarama.NewBalanceStrategyRoundRobin(),
	"sticky":     sarama.NewBalanceStrategySticky(),
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

// reading is what a member does in one generation.
type reading struct {
	topic string
}

func (r reading) Setup(session sarama.ConsumerGroupSession) error {
	member.Holds("assigned", session.Claims()[r.topic])
	return nil
}

func (r reading) Cleanup(session sarama.ConsumerGroupSession) error {
	member.Holds("revoked", session.Claims()[r.topic])
	return nil
}

func (r reading) ConsumeClaim(
	session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim,
) error {
	for message := range claim.Messages() {
		member.Say("got", message.Partition, message.Offset)
		session.MarkMessage(message, "")
		session.Commit()
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
		if err := group.Consume(ctx, []string{job.Topic}, reading{job.Topic}); err != nil {
			member.Say("error", err)
		}
	}
	return group.Close()
}

func main() {
	member.Run(be)
}
