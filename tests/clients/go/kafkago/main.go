// Command kafkago is segmentio/kafka-go as a driver: its Writer, its Reader and its Client.
package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/compress"

	"odradek/clients/jobs"
)

var codecs = map[string]compress.Compression{
	"none":   0,
	"gzip":   kafka.Gzip,
	"snappy": kafka.Snappy,
	"lz4":    kafka.Lz4,
	"zstd":   kafka.Zstd,
}

var acks = map[string]kafka.RequiredAcks{
	"0":   kafka.RequireNone,
	"1":   kafka.RequireOne,
	"all": kafka.RequireAll,
}

var resources = map[string]kafka.ResourceType{
	"topic":  kafka.ResourceTypeTopic,
	"broker": kafka.ResourceTypeBroker,
}

func within() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), jobs.Timeout)
}

// written collects the offsets that the writer reports batch by batch.
type written struct {
	sync.Mutex
	offsets []int64
}

func (w *written) report(messages []kafka.Message, err error) {
	w.Lock()
	defer w.Unlock()
	for _, message := range messages {
		w.offsets = append(w.offsets, message.Offset)
	}
}

func produce(job jobs.Job) (jobs.Answer, error) {
	transport := &kafka.Transport{ClientID: job.ClientID}
	defer transport.CloseIdleConnections()
	var done written
	writer := &kafka.Writer{
		Addr:                   kafka.TCP(job.Bootstrap),
		Topic:                  job.Topic,
		Transport:              transport,
		RequiredAcks:           acks[job.Acks],
		Compression:            codecs[job.Codec],
		BatchBytes:             16_000_000,
		BatchTimeout:           20 * time.Millisecond,
		AllowAutoTopicCreation: true,
		MaxAttempts:            5,
		Completion:             done.report,
		Balancer: kafka.BalancerFunc(func(kafka.Message, ...int) int {
			return int(job.Partition)
		}),
	}
	var messages []kafka.Message
	for _, record := range job.Records {
		message := kafka.Message{Key: record.Key, Value: record.Value, Time: record.Time()}
		for _, header := range record.Headers {
			pair := kafka.Header{Key: header.Name, Value: header.Value}
			message.Headers = append(message.Headers, pair)
		}
		messages = append(messages, message)
	}
	ctx, cancel := within()
	defer cancel()
	err := writer.WriteMessages(ctx, messages...)
	if closing := writer.Close(); err == nil {
		err = closing
	}
	return jobs.Answer{"offsets": done.offsets}, err
}

func consume(job jobs.Job) (jobs.Answer, error) {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers:               []string{job.Bootstrap},
		Topic:                 job.Topic,
		Partition:             int(job.Partition),
		MaxBytes:              16_000_000,
		MaxWait:               200 * time.Millisecond,
		MaxAttempts:           3,
		OffsetOutOfRangeError: true,
		Dialer:                &kafka.Dialer{ClientID: job.ClientID},
	})
	defer reader.Close()
	if err := reader.SetOffset(readerOffset(job.Offset)); err != nil {
		return nil, err
	}
	ctx, cancel := within()
	defer cancel()
	records := []jobs.Record{}
	for len(records) < job.Count {
		message, err := reader.ReadMessage(ctx)
		if err != nil {
			return nil, err
		}
		records = append(records, received(message))
	}
	return jobs.Answer{"records": records}, nil
}

func consumeInGroup(job jobs.Job) (jobs.Answer, error) {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers:     []string{job.Bootstrap},
		GroupID:     job.Group,
		Topic:       job.Topic,
		StartOffset: kafka.FirstOffset,
		MaxBytes:    16_000_000,
		MaxWait:     200 * time.Millisecond,
		Dialer:      &kafka.Dialer{ClientID: job.ClientID},
	})
	defer reader.Close()
	ctx, cancel := within()
	defer cancel()
	records := []jobs.Record{}
	for len(records) < job.Count {
		message, err := reader.FetchMessage(ctx)
		if err != nil {
			return nil, err
		}
		records = append(records, received(message))
		if err := reader.CommitMessages(ctx, message); err != nil {
			return nil, err
		}
	}
	return jobs.Answer{"records": records}, nil
}

func readerOffset(offset int64) int64 {
	switch offset {
	case jobs.Earliest:
		return kafka.FirstOffset
	case jobs.Latest:
		return kafka.LastOffset
	}
	return offset
}

func received(message kafka.Message) jobs.Record {
	record := jobs.Record{
		Offset: message.Offset, Timestamp: jobs.Millis(message.Time),
		Key: message.Key, Value: message.Value,
	}
	for _, header := range message.Headers {
		record.Headers = append(record.Headers, jobs.Header{Name: header.Key, Value: header.Value})
	}
	return record
}

// asking makes a verb of a question to kafka-go's Client.
func asking(ask func(context.Context, *kafka.Client, jobs.Job) (jobs.Answer, error)) jobs.Verb {
	return func(job jobs.Job) (jobs.Answer, error) {
		transport := &kafka.Transport{ClientID: job.ClientID}
		defer transport.CloseIdleConnections()
		client := &kafka.Client{Addr: kafka.TCP(job.Bootstrap), Transport: transport}
		ctx, cancel := within()
		defer cancel()
		return ask(ctx, client, job)
	}
}

func offsetAt(ctx context.Context, client *kafka.Client, job jobs.Job) (jobs.Answer, error) {
	partition := int(job.Partition)
	wanted := kafka.TimeOffsetOf(partition, time.UnixMilli(job.At))
	switch job.At {
	case jobs.Earliest:
		wanted = kafka.FirstOffsetOf(partition)
	case jobs.Latest:
		wanted = kafka.LastOffsetOf(partition)
	}
	listed, err := client.ListOffsets(ctx, &kafka.ListOffsetsRequest{
		Topics: map[string][]kafka.OffsetRequest{job.Topic: {wanted}},
	})
	if err != nil {
		return nil, err
	}
	found := listed.Topics[job.Topic][0]
	return jobs.Answer{"offset": offsetIn(found, job.At)}, found.Error
}

func offsetIn(found kafka.PartitionOffsets, at int64) int64 {
	switch at {
	case jobs.Earliest:
		return found.FirstOffset
	case jobs.Latest:
		return found.LastOffset
	}
	for offset := range found.Offsets {
		return offset
	}
	return -1
}

// first is the error of the one thing that was asked for.
func first(err error, errs map[string]error) (jobs.Answer, error) {
	if err != nil {
		return nil, err
	}
	for _, each := range errs {
		return nil, each
	}
	return nil, nil
}

func createTopic(ctx context.Context, client *kafka.Client, job jobs.Job) (jobs.Answer, error) {
	topic := kafka.TopicConfig{
		Topic: job.Topic, NumPartitions: int(job.Partitions), ReplicationFactor: 1,
	}
	for name, value := range job.Configs {
		entry := kafka.ConfigEntry{ConfigName: name, ConfigValue: *value}
		topic.ConfigEntries = append(topic.ConfigEntries, entry)
	}
	done, err := client.CreateTopics(ctx, &kafka.CreateTopicsRequest{
		Topics: []kafka.TopicConfig{topic}, ValidateOnly: job.ValidateOnly,
	})
	if err != nil {
		return nil, err
	}
	return first(nil, done.Errors)
}

func metadata(
	ctx context.Context, client *kafka.Client, topics ...string,
) (*kafka.MetadataResponse, error) {
	return client.Metadata(ctx, &kafka.MetadataRequest{Topics: topics})
}

func listTopics(ctx context.Context, client *kafka.Client, _ jobs.Job) (jobs.Answer, error) {
	cluster, err := metadata(ctx, client)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, topic := range cluster.Topics {
		names = append(names, topic.Name)
	}
	return jobs.Answer{"topics": names}, nil
}

func describeTopic(ctx context.Context, client *kafka.Client, job jobs.Job) (jobs.Answer, error) {
	cluster, err := metadata(ctx, client, job.Topic)
	if err != nil {
		return nil, err
	}
	topic := cluster.Topics[0]
	var partitions []jobs.Partition
	for _, partition := range topic.Partitions {
		partitions = append(partitions, jobs.Partition{
			ID: int32(partition.ID), Leader: int32(partition.Leader.ID),
			Replicas: ids(partition.Replicas), ISR: ids(partition.Isr),
		})
	}
	return jobs.Answer{"partitions": partitions}, topic.Error
}

func ids(brokers []kafka.Broker) []int32 {
	var found []int32
	for _, broker := range brokers {
		found = append(found, int32(broker.ID))
	}
	return found
}

func createPartitions(
	ctx context.Context, client *kafka.Client, job jobs.Job,
) (jobs.Answer, error) {
	done, err := client.CreatePartitions(ctx, &kafka.CreatePartitionsRequest{
		Topics: []kafka.TopicPartitionsConfig{{Name: job.Topic, Count: job.Total}},
	})
	if err != nil {
		return nil, err
	}
	return first(nil, done.Errors)
}

func deleteTopic(ctx context.Context, client *kafka.Client, job jobs.Job) (jobs.Answer, error) {
	done, err := client.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{job.Topic}})
	if err != nil {
		return nil, err
	}
	return first(nil, done.Errors)
}

func describeConfigs(ctx context.Context, client *kafka.Client, job jobs.Job) (jobs.Answer, error) {
	described, err := client.DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{
		Resources: []kafka.DescribeConfigRequestResource{
			{ResourceType: resources[job.Resource], ResourceName: job.Name},
		},
	})
	if err != nil {
		return nil, err
	}
	const defaultSource = 5
	configs := map[string]jobs.Config{}
	for _, resource := range described.Resources {
		if resource.Error != nil {
			return nil, resource.Error
		}
		for _, entry := range resource.ConfigEntries {
			isDefault := entry.ConfigSource == defaultSource
			value := entry.ConfigValue
			configs[entry.ConfigName] = jobs.Config{Value: &value, Default: isDefault}
		}
	}
	return jobs.Answer{"configs": configs}, nil
}

func setConfigs(ctx context.Context, client *kafka.Client, job jobs.Job) (jobs.Answer, error) {
	resource := kafka.IncrementalAlterConfigsRequestResource{
		ResourceType: kafka.ResourceTypeTopic, ResourceName: job.Topic,
	}
	for name, value := range job.Configs {
		change := kafka.IncrementalAlterConfigsRequestConfig{Name: name}
		if value == nil {
			change.ConfigOperation = kafka.ConfigOperationDelete
		} else {
			change.Value = *value
		}
		resource.Configs = append(resource.Configs, change)
	}
	done, err := client.IncrementalAlterConfigs(ctx, &kafka.IncrementalAlterConfigsRequest{
		Resources: []kafka.IncrementalAlterConfigsRequestResource{resource},
	})
	if err != nil {
		return nil, err
	}
	return nil, done.Resources[0].Error
}

func replaceConfigs(ctx context.Context, client *kafka.Client, job jobs.Job) (jobs.Answer, error) {
	resource := kafka.AlterConfigRequestResource{
		ResourceType: kafka.ResourceTypeTopic, ResourceName: job.Topic,
	}
	for name, value := range job.Configs {
		config := kafka.AlterConfigRequestConfig{Name: name, Value: *value}
		resource.Configs = append(resource.Configs, config)
	}
	done, err := client.AlterConfigs(ctx, &kafka.AlterConfigsRequest{
		Resources: []kafka.AlterConfigRequestResource{resource},
	})
	if err != nil {
		return nil, err
	}
	for _, failure := range done.Errors {
		return nil, failure
	}
	return nil, nil
}

func describeCluster(ctx context.Context, client *kafka.Client, _ jobs.Job) (jobs.Answer, error) {
	cluster, err := metadata(ctx, client)
	if err != nil {
		return nil, err
	}
	var brokers []jobs.Broker
	for _, broker := range cluster.Brokers {
		brokers = append(brokers, jobs.Broker{
			ID: int32(broker.ID), Host: broker.Host, Port: int32(broker.Port),
		})
	}
	return jobs.Answer{
		"cluster_id": cluster.ClusterID, "controller": cluster.Controller.ID, "brokers": brokers,
	}, nil
}

func code(err error) (int, bool) {
	var many kafka.WriteErrors
	if errors.As(err, &many) {
		for _, each := range many {
			if each != nil {
				return code(each)
			}
		}
	}
	var tooLarge kafka.MessageTooLargeError
	if errors.As(err, &tooLarge) {
		return int(kafka.MessageSizeTooLarge), true
	}
	var known kafka.Error
	if errors.As(err, &known) && known >= 0 {
		return int(known), true
	}
	return 0, false
}

func main() {
	jobs.Serve(map[string]jobs.Verb{
		"produce":           produce,
		"consume":           consume,
		"consume_in_group":  consumeInGroup,
		"offset_at":         asking(offsetAt),
		"create_topic":      asking(createTopic),
		"list_topics":       asking(listTopics),
		"describe_topic":    asking(describeTopic),
		"create_partitions": asking(createPartitions),
		"delete_topic":      asking(deleteTopic),
		"describe_configs":  asking(describeConfigs),
		"set_configs":       asking(setConfigs),
		"replace_configs":   asking(replaceConfigs),
		"describe_cluster":  asking(describeCluster),
	}, code)
}
