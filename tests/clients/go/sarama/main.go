// Command sarama is sarama as a driver; the setting "version" makes it speak as to an old broker.
package main

import (
	"context"
	"errors"
	"time"

	"github.com/IBM/sarama"

	"odradek/clients/jobs"
)

var codecs = map[string]sarama.CompressionCodec{
	"none":   sarama.CompressionNone,
	"gzip":   sarama.CompressionGZIP,
	"snappy": sarama.CompressionSnappy,
	"lz4":    sarama.CompressionLZ4,
	"zstd":   sarama.CompressionZSTD,
}

var acks = map[string]sarama.RequiredAcks{
	"0":   sarama.NoResponse,
	"1":   sarama.WaitForLocal,
	"all": sarama.WaitForAll,
}

var resources = map[string]sarama.ConfigResourceType{
	"topic":  sarama.TopicResource,
	"broker": sarama.BrokerResource,
}

func configure(job jobs.Job) (*sarama.Config, error) {
	config := sarama.NewConfig()
	config.ClientID = job.ClientID
	config.Version = sarama.V3_9_0_0
	if wanted, old := job.Settings["version"]; old {
		version, err := sarama.ParseKafkaVersion(wanted)
		if err != nil {
			return nil, err
		}
		config.Version = version
		config.ApiVersionsRequest = false
		config.Consumer.Fetch.Default = 8_000_000 // old fetches give no batch larger than asked for
	}
	return config, nil
}

func produce(job jobs.Job) (jobs.Answer, error) {
	config, err := configure(job)
	if err != nil {
		return nil, err
	}
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.RequiredAcks = acks[job.Acks]
	config.Producer.Compression = codecs[job.Codec]
	config.Producer.Idempotent = job.Idempotent
	config.Producer.MaxMessageBytes = 16_000_000
	config.Producer.Flush.Frequency = 20 * time.Millisecond
	config.Producer.Return.Successes = true
	if job.Idempotent {
		config.Net.MaxOpenRequests = 1
	}
	producer, err := sarama.NewSyncProducer([]string{job.Bootstrap}, config)
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	var messages []*sarama.ProducerMessage
	for _, record := range job.Records {
		messages = append(messages, message(job, record))
	}
	if err := producer.SendMessages(messages); err != nil {
		return nil, err
	}
	var offsets []int64
	for _, message := range messages {
		offsets = append(offsets, message.Offset)
	}
	return jobs.Answer{"offsets": offsets}, nil
}

func message(job jobs.Job, record jobs.Record) *sarama.ProducerMessage {
	message := &sarama.ProducerMessage{
		Topic: job.Topic, Partition: job.Partition, Timestamp: record.Time(),
	}
	if record.Key != nil {
		message.Key = sarama.ByteEncoder(record.Key)
	}
	if record.Value != nil {
		message.Value = sarama.ByteEncoder(record.Value)
	}
	for _, header := range record.Headers {
		pair := sarama.RecordHeader{Key: []byte(header.Name), Value: header.Value}
		message.Headers = append(message.Headers, pair)
	}
	return message
}

func consume(job jobs.Job) (jobs.Answer, error) {
	config, err := configure(job)
	if err != nil {
		return nil, err
	}
	config.Consumer.Return.Errors = true
	config.Consumer.MaxWaitTime = 100 * time.Millisecond
	config.Metadata.AllowAutoTopicCreation = false
	if job.Committed {
		config.Consumer.IsolationLevel = sarama.ReadCommitted
	}
	consumer, err := sarama.NewConsumer([]string{job.Bootstrap}, config)
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	reader, err := consumer.ConsumePartition(job.Topic, job.Partition, job.Offset)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	records := []jobs.Record{}
	deadline := time.After(jobs.Timeout)
	for len(records) < job.Count {
		select {
		case message := <-reader.Messages():
			records = append(records, received(message))
		case failure := <-reader.Errors():
			return nil, failure
		case <-deadline:
			return jobs.Answer{"records": records}, nil
		}
	}
	return jobs.Answer{"records": records}, nil
}

// reading is what a member of a group does with what it is given.
type reading struct {
	wanted  int
	records []jobs.Record
	done    context.CancelFunc
}

func (r *reading) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (r *reading) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (r *reading) ConsumeClaim(
	session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim,
) error {
	for {
		select {
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			r.records = append(r.records, received(message))
			session.MarkMessage(message, "")
			if len(r.records) == r.wanted {
				session.Commit()
				r.done()
			}
		case <-session.Context().Done():
			return nil
		}
	}
}

func consumeInGroup(job jobs.Job) (jobs.Answer, error) {
	config, err := configure(job)
	if err != nil {
		return nil, err
	}
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.MaxWaitTime = 100 * time.Millisecond
	group, err := sarama.NewConsumerGroup([]string{job.Bootstrap}, job.Group, config)
	if err != nil {
		return nil, err
	}
	defer group.Close()
	ctx, cancel := context.WithTimeout(context.Background(), jobs.Timeout)
	defer cancel()
	member := &reading{wanted: job.Count, done: cancel}
	for ctx.Err() == nil {
		if err := group.Consume(ctx, []string{job.Topic}, member); err != nil {
			return nil, err
		}
	}
	return jobs.Answer{"records": member.records}, nil
}

func received(message *sarama.ConsumerMessage) jobs.Record {
	record := jobs.Record{Offset: message.Offset, Key: message.Key, Value: message.Value}
	if !message.Timestamp.IsZero() {
		record.Timestamp = jobs.Millis(message.Timestamp)
	}
	for _, header := range message.Headers {
		pair := jobs.Header{Name: string(header.Key), Value: header.Value}
		record.Headers = append(record.Headers, pair)
	}
	return record
}

// talking makes a verb of something done with a client.
func talking(do func(sarama.Client, jobs.Job) (jobs.Answer, error)) jobs.Verb {
	return func(job jobs.Job) (jobs.Answer, error) {
		config, err := configure(job)
		if err != nil {
			return nil, err
		}
		client, err := sarama.NewClient([]string{job.Bootstrap}, config)
		if err != nil {
			return nil, err
		}
		defer client.Close()
		return do(client, job)
	}
}

// asking makes a verb of a question to the admin client.
func asking(ask func(sarama.ClusterAdmin, jobs.Job) (jobs.Answer, error)) jobs.Verb {
	return func(job jobs.Job) (jobs.Answer, error) {
		config, err := configure(job)
		if err != nil {
			return nil, err
		}
		admin, err := sarama.NewClusterAdmin([]string{job.Bootstrap}, config)
		if err != nil {
			return nil, err
		}
		defer admin.Close()
		return ask(admin, job)
	}
}

func offsetAt(client sarama.Client, job jobs.Job) (jobs.Answer, error) {
	offset, err := client.GetOffset(job.Topic, job.Partition, job.At)
	return jobs.Answer{"offset": offset}, err
}

func createTopic(admin sarama.ClusterAdmin, job jobs.Job) (jobs.Answer, error) {
	detail := &sarama.TopicDetail{
		NumPartitions: job.Partitions, ReplicationFactor: 1, ConfigEntries: job.Configs,
	}
	return nil, admin.CreateTopic(job.Topic, detail, job.ValidateOnly)
}

func listTopics(admin sarama.ClusterAdmin, _ jobs.Job) (jobs.Answer, error) {
	topics, err := admin.ListTopics()
	var names []string
	for name := range topics {
		names = append(names, name)
	}
	return jobs.Answer{"topics": names}, err
}

func describeTopic(admin sarama.ClusterAdmin, job jobs.Job) (jobs.Answer, error) {
	topics, err := admin.DescribeTopics([]string{job.Topic})
	if err != nil {
		return nil, err
	}
	if topics[0].Err != sarama.ErrNoError {
		return nil, topics[0].Err
	}
	var partitions []jobs.Partition
	for _, partition := range topics[0].Partitions {
		partitions = append(partitions, jobs.Partition{
			ID: partition.ID, Leader: partition.Leader,
			Replicas: partition.Replicas, ISR: partition.Isr,
		})
	}
	return jobs.Answer{"partitions": partitions}, nil
}

func createPartitions(admin sarama.ClusterAdmin, job jobs.Job) (jobs.Answer, error) {
	return nil, admin.CreatePartitions(job.Topic, job.Total, nil, false)
}

func deleteTopic(admin sarama.ClusterAdmin, job jobs.Job) (jobs.Answer, error) {
	return nil, admin.DeleteTopic(job.Topic)
}

func describeConfigs(admin sarama.ClusterAdmin, job jobs.Job) (jobs.Answer, error) {
	resource := sarama.ConfigResource{Type: resources[job.Resource], Name: job.Name}
	entries, err := admin.DescribeConfig(resource)
	configs := map[string]jobs.Config{}
	for _, entry := range entries {
		isDefault := entry.Source == sarama.SourceDefault
		configs[entry.Name] = jobs.Config{Value: &entry.Value, Default: isDefault}
	}
	return jobs.Answer{"configs": configs}, err
}

func setConfigs(admin sarama.ClusterAdmin, job jobs.Job) (jobs.Answer, error) {
	changes := map[string]sarama.IncrementalAlterConfigsEntry{}
	for name, value := range job.Configs {
		operation := sarama.IncrementalAlterConfigsOperationSet
		if value == nil {
			operation = sarama.IncrementalAlterConfigsOperationDelete
		}
		changes[name] = sarama.IncrementalAlterConfigsEntry{Operation: operation, Value: value}
	}
	return nil, admin.IncrementalAlterConfig(sarama.TopicResource, job.Topic, changes, false)
}

func replaceConfigs(admin sarama.ClusterAdmin, job jobs.Job) (jobs.Answer, error) {
	return nil, admin.AlterConfig(sarama.TopicResource, job.Topic, job.Configs, false)
}

func deleteRecords(admin sarama.ClusterAdmin, job jobs.Job) (jobs.Answer, error) {
	until := map[int32]int64{job.Partition: job.Before}
	if err := admin.DeleteRecords(job.Topic, until); err != nil {
		return nil, err
	}
	answer, err := talking(offsetAt)(earliest(job))
	return jobs.Answer{"low_watermark": answer["offset"]}, err
}

// earliest asks where the log begins: sarama keeps the answer to DeleteRecords for itself.
func earliest(job jobs.Job) jobs.Job {
	job.At = jobs.Earliest
	return job
}

func describeCluster(admin sarama.ClusterAdmin, _ jobs.Job) (jobs.Answer, error) {
	found, controller, err := admin.DescribeCluster()
	if err != nil {
		return nil, err
	}
	var brokers []jobs.Broker
	for _, broker := range found {
		host, port := jobs.SplitAddress(broker.Addr())
		brokers = append(brokers, jobs.Broker{ID: broker.ID(), Host: host, Port: port})
	}
	return jobs.Answer{"cluster_id": nil, "controller": controller, "brokers": brokers}, nil
}

func describeLogDirs(admin sarama.ClusterAdmin, job jobs.Job) (jobs.Answer, error) {
	brokers, _, err := admin.DescribeCluster()
	if err != nil {
		return nil, err
	}
	var ids []int32
	for _, broker := range brokers {
		ids = append(ids, broker.ID())
	}
	folders, err := admin.DescribeLogDirs(ids)
	sizes := map[int32]int64{}
	for _, ofBroker := range folders {
		for _, folder := range ofBroker {
			for _, topic := range folder.Topics {
				if topic.Topic != job.Topic {
					continue
				}
				for _, partition := range topic.Partitions {
					sizes[partition.PartitionID] = partition.Size
				}
			}
		}
	}
	return jobs.Answer{"sizes": sizes}, err
}

func code(err error) (int, bool) {
	var many sarama.ProducerErrors
	if errors.As(err, &many) {
		return code(many[0].Err)
	}
	var ofTopic *sarama.TopicError
	if errors.As(err, &ofTopic) {
		return int(ofTopic.Err), true
	}
	var ofPartition *sarama.TopicPartitionError
	if errors.As(err, &ofPartition) {
		return int(ofPartition.Err), true
	}
	var known sarama.KError
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
		"transact":          transact,
		"be_fenced":         beFenced,
		"offset_at":         talking(offsetAt),
		"create_topic":      asking(createTopic),
		"list_topics":       asking(listTopics),
		"describe_topic":    asking(describeTopic),
		"create_partitions": asking(createPartitions),
		"delete_topic":      asking(deleteTopic),
		"describe_configs":  asking(describeConfigs),
		"set_configs":       asking(setConfigs),
		"replace_configs":   asking(replaceConfigs),
		"delete_records":    asking(deleteRecords),
		"describe_cluster":  asking(describeCluster),
		"describe_log_dirs": asking(describeLogDirs),
	}, code)
}
