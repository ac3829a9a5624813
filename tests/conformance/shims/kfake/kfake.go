// Package kfake stands in for franz-go's fake cluster of the same name, so that the tests written
// for it run against a real one: the brokers named in CONFORMANCE_SEEDS. Only what those tests use
// is here. Whatever would reach into the inside of a broker cannot be had and panics.
package kfake

import (
	"context"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const patience = 30 * time.Second

type topics struct {
	partitions int32
	names      []string
}

type settings struct{ seeded []topics }

// Opt is one wish for the cluster.
type Opt func(*settings)

// NumBrokers is up to whoever started the real cluster.
func NumBrokers(int) Opt { return func(*settings) {} }

// BrokerConfigs are those of the real cluster.
func BrokerConfigs(map[string]string) Opt { return func(*settings) {} }

// SeedTopics are deleted and made anew, so that each test finds them empty.
func SeedTopics(partitions int32, names ...string) Opt {
	return func(s *settings) { s.seeded = append(s.seeded, topics{partitions, names}) }
}

// Cluster is the real cluster, seen by one test.
type Cluster struct {
	client *kgo.Client
	admin  *kadm.Client
}

func seeds() []string { return strings.Split(os.Getenv("CONFORMANCE_SEEDS"), ",") }

// NewCluster connects to the real cluster and makes the topics.
func NewCluster(opts ...Opt) (*Cluster, error) {
	var wanted settings
	for _, opt := range opts {
		opt(&wanted)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(seeds()...))
	if err != nil {
		return nil, err
	}
	cluster := &Cluster{client, kadm.NewClient(client)}
	for _, topics := range wanted.seeded {
		if err := cluster.renew(topics); err != nil {
			client.Close()
			return nil, err
		}
	}
	return cluster, nil
}

// renew deletes topics and makes them again. Deletion takes its time: the old topic may still be
// there when the new one is asked for.
func (c *Cluster) renew(t topics) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := c.admin.DeleteTopics(ctx, t.names...); err != nil {
		return err
	}
	for {
		made, err := c.admin.CreateTopics(ctx, t.partitions, 1, nil, t.names...)
		if err == nil {
			err = made.Error()
		}
		if err == nil {
			return c.untilLed(ctx, t)
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// untilLed waits until every broker knows the leaders: news of a topic spreads, and a client that
// asks the one broker that has not heard yet waits seconds before it asks again.
func (c *Cluster) untilLed(ctx context.Context, t topics) error {
	for _, broker := range c.client.SeedBrokers() {
		for !knows(ctx, broker, t) {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
	return nil
}

func knows(ctx context.Context, broker *kgo.Broker, t topics) bool {
	request := kmsg.NewPtrMetadataRequest()
	for _, name := range t.names {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = kmsg.StringPtr(name)
		request.Topics = append(request.Topics, topic)
	}
	response, err := request.RequestWith(ctx, broker)
	if err != nil {
		return false
	}
	led := 0
	for _, topic := range response.Topics {
		for _, partition := range topic.Partitions {
			if partition.ErrorCode == 0 && partition.Leader >= 0 {
				led++
			}
		}
	}
	return led == int(t.partitions)*len(t.names)
}

// ListenAddrs are the real brokers.
func (*Cluster) ListenAddrs() []string { return seeds() }

// Close lets go of the real cluster.
func (c *Cluster) Close() { c.client.Close() }

// GroupCommit is one committed offset.
type GroupCommit struct {
	Offset      int64
	LeaderEpoch int32
	Metadata    string
	At          time.Time
}

// GroupMember is one member of a group, with the partitions it has.
type GroupMember struct {
	MemberID   string
	Assignment map[string][]int32
}

// NumAssigned counts the partitions of one member.
func (m *GroupMember) NumAssigned() int {
	count := 0
	for _, partitions := range m.Assignment {
		count += len(partitions)
	}
	return count
}

// GroupInfo is what can be asked about a group.
type GroupInfo struct {
	Group   string
	State   string
	Members []GroupMember
	Commits map[string]map[int32]GroupCommit
}

// NumAssigned counts the partitions of all members.
func (g *GroupInfo) NumAssigned() int {
	count := 0
	for _, member := range g.Members {
		count += member.NumAssigned()
	}
	return count
}

// GroupInfo asks for the committed offsets of a group; nil when there are none.
func (c *Cluster) GroupInfo(group string) *GroupInfo {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	offsets, err := c.admin.FetchOffsets(ctx, group)
	if err != nil || len(offsets) == 0 {
		return nil
	}
	info := &GroupInfo{Group: group, Commits: make(map[string]map[int32]GroupCommit)}
	offsets.Each(func(o kadm.OffsetResponse) {
		if info.Commits[o.Topic] == nil {
			info.Commits[o.Topic] = make(map[int32]GroupCommit)
		}
		info.Commits[o.Topic][o.Partition] = GroupCommit{
			Offset: o.At, LeaderEpoch: o.LeaderEpoch, Metadata: o.Metadata,
		}
	})
	return info
}

// WaitGroupStable waits until the group has settled with so many members, be it of the classic
// protocol or of the one that came with Kafka 4.
func (c *Cluster) WaitGroupStable(ctx context.Context, group string, members int) (*GroupInfo, error) {
	for {
		if info := c.describe(ctx, group); info.State == "Stable" && len(info.Members) == members {
			return info, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (c *Cluster) describe(ctx context.Context, group string) *GroupInfo {
	info := &GroupInfo{Group: group}
	if found, err := c.admin.DescribeConsumerGroups(ctx, group); err == nil {
		if described := found[group]; described.Err == nil {
			info.State = described.State
			for _, member := range described.Members {
				info.add(member.MemberID, member.Assignment)
			}
			return info
		}
	}
	if found, err := c.admin.DescribeGroups(ctx, group); err == nil {
		described := found[group]
		info.State = described.State
		for _, member := range described.Members {
			assigned := make(kadm.TopicsSet)
			if consumer, ok := member.Assigned.AsConsumer(); ok {
				for _, topic := range consumer.Topics {
					assigned.Add(topic.Topic, topic.Partitions...)
				}
			}
			info.add(member.MemberID, assigned)
		}
	}
	return info
}

func (g *GroupInfo) add(member string, assigned kadm.TopicsSet) {
	partitions := make(map[string][]int32)
	for _, topic := range assigned.Sorted() {
		partitions[topic.Topic] = topic.Partitions
	}
	g.Members = append(g.Members, GroupMember{member, partitions})
}

// ControlKey would answer in the broker's place.
func (*Cluster) ControlKey(int16, func(kmsg.Request) (kmsg.Response, error, bool)) {
	panic("a real broker answers for itself")
}

// Fault is a mistake that the fake would make on demand.
type Fault struct {
	Keys []kmsg.Key
	Err  error
	When func(kmsg.Request) bool
}

// Fault would make the broker err.
func (*Cluster) Fault(Fault) { panic("a real broker does not err on demand") }
