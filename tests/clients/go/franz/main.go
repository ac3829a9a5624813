// Command franz is franz-go as a driver.
package main

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"odradek/clients/jobs"
)

var codecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

var acks = map[string]kgo.Acks{
	"0":   kgo.NoAck(),
	"1":   kgo.LeaderAck(),
	"all": kgo.AllISRAcks(),
}

func connect(job jobs.Job, more ...kgo.Opt) (*kgo.Client, error) {
	common := []kgo.Opt{kgo.SeedBrokers(job.Bootstrap), kgo.ClientID(job.ClientID)}
	return kgo.NewClient(append(common, more...)...)
}

func within() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), jobs.Timeout)
}

func produce(job jobs.Job) (jobs.Answer, error) {
	options := []kgo.Opt{
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RequiredAcks(acks[job.Acks]),
		kgo.ProducerBatchCompression(codecs[job.Codec]),
		kgo.ProducerBatchMaxBytes(16_000_000),
		kgo.BrokerMaxWriteBytes(64_000_000),
		kgo.AllowAutoTopicCreation(),
	}
	if !job.Idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	client, err := connect(job, options...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	var records []*kgo.Record
	for _, record := range job.Records {
		headers := make([]kgo.RecordHeader, 0, len(record.Headers))
		for _, header := range record.Headers {
			headers = append(headers, kgo.RecordHeader{Key: header.Name, Value: header.Value})
		}
		records = append(records, &kgo.Record{
			Topic: job.Topic, Partition: job.Partition, Timestamp: record.Time(),
			Key: record.Key, Value: record.Value, Headers: headers,
		})
	}
	ctx, cancel := within()
	defer cancel()
	var offsets []int64
	for _, result := range client.ProduceSync(ctx, records...) {
		if result.Err != nil {
			return nil, result.Err
		}
		offsets = append(offsets, result.Record.Offset)
	}
	return jobs.Answer{"offsets": offsets}, nil
}

func startingAt(offset int64) kgo.Offset {
	switch offset {
	case jobs.Earliest:
		return kgo.NewOffset().AtStart()
	case jobs.Latest:
		return kgo.NewOffset().AtEnd()
	}
	return kgo.NewOffset().At(offset)
}

func consume(job jobs.Job) (jobs.Answer, error) {
	where := map[string]map[int32]kgo.Offset{job.Topic: {job.Partition: startingAt(job.Offset)}}
	isolation := kgo.ReadUncommitted()
	if job.Committed {
		isolation = kgo.ReadCommitted()
	}
	client, err := connect(job,
		kgo.ConsumePartitions(where), kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchMaxWait(100*time.Millisecond), kgo.FetchIsolationLevel(isolation))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := within()
	defer cancel()
	records := []jobs.Record{}
	for len(records) < job.Count {
		fetches := client.PollRecords(ctx, job.Count-len(records))
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		fetches.EachRecord(func(record *kgo.Record) { records = append(records, received(record)) })
	}
	return jobs.Answer{"records": records}, nil
}

func consumeInGroup(job jobs.Job) (jobs.Answer, error) {
	client, err := connect(job,
		kgo.ConsumerGroup(job.Group), kgo.ConsumeTopics(job.Topic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(100*time.Millisecond))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := within()
	defer cancel()
	records := []jobs.Record{}
	for len(records) < job.Count {
		fetches := client.PollRecords(ctx, job.Count-len(records))
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		fetches.EachRecord(func(record *kgo.Record) { records = append(records, received(record)) })
	}
	return jobs.Answer{"records": records}, client.CommitUncommittedOffsets(ctx)
}

func received(record *kgo.Record) jobs.Record {
	headers := []jobs.Header{}
	for _, header := range record.Headers {
		headers = append(headers, jobs.Header{Name: header.Key, Value: header.Value})
	}
	return jobs.Record{
		Offset: record.Offset, Timestamp: jobs.Millis(record.Timestamp),
		TimestampType: jobs.TimestampType(record.Attrs.TimestampType() == 1),
		Key:           record.Key, Value: record.Value, Headers: headers,
	}
}

// asking makes a verb of a question to the admin client.
func asking(ask func(context.Context, *kadm.Client, jobs.Job) (jobs.Answer, error)) jobs.Verb {
	return func(job jobs.Job) (jobs.Answer, error) {
		client, err := connect(job)
		if err != nil {
			return nil, err
		}
		defer client.Close()
		ctx, cancel := within()
		defer cancel()
		return ask(ctx, kadm.NewClient(client), job)
	}
}

func offsetAt(ctx context.Context, admin *kadm.Client, job jobs.Job) (jobs.Answer, error) {
	var listed kadm.ListedOffsets
	var err error
	switch job.At {
	case jobs.Earliest:
		listed, err = admin.ListStartOffsets(ctx, job.Topic)
	case jobs.Latest:
		listed, err = admin.ListEndOffsets(ctx, job.Topic)
	case jobs.MaxTimestamp:
		listed, err = admin.ListMaxTimestampOffsets(ctx, job.Topic)
	default:
		listed, err = admin.ListOffsetsAfterMilli(ctx, job.At, job.Topic)
	}
	if err != nil {
		return nil, err
	}
	found, _ := listed.Lookup(job.Topic, job.Partition)
	return jobs.Answer{"offset": found.Offset, "timestamp": found.Timestamp}, found.Err
}

func createTopic(ctx context.Context, admin *kadm.Client, job jobs.Job) (jobs.Answer, error) {
	create := admin.CreateTopics
	if job.ValidateOnly {
		create = admin.ValidateCreateTopics
	}
	created, err := create(ctx, job.Partitions, 1, job.Configs, job.Topic)
	if err != nil {
		return nil, err
	}
	return nil, created.Error()
}

func listTopics(ctx context.Context, admin *kadm.Client, _ jobs.Job) (jobs.Answer, error) {
	topics, err := admin.ListTopics(ctx)
	return jobs.Answer{"topics": topics.Names()}, err
}

func describeTopic(ctx context.Context, admin *kadm.Client, job jobs.Job) (jobs.Answer, error) {
	topics, err := admin.ListTopics(ctx, job.Topic)
	if err != nil {
		return nil, err
	}
	if err := topics.Error(); err != nil {
		return nil, err
	}
	var partitions []jobs.Partition
	for _, partition := range topics[job.Topic].Partitions.Sorted() {
		partitions = append(partitions, jobs.Partition{
			ID: partition.Partition, Leader: partition.Leader,
			Replicas: partition.Replicas, ISR: partition.ISR,
		})
	}
	return jobs.Answer{"partitions": partitions}, nil
}

func createPartitions(ctx context.Context, admin *kadm.Client, job jobs.Job) (jobs.Answer, error) {
	done, err := admin.UpdatePartitions(ctx, int(job.Total), job.Topic)
	if err != nil {
		return nil, err
	}
	return nil, done.Error()
}

func deleteTopic(ctx context.Context, admin *kadm.Client, job jobs.Job) (jobs.Answer, error) {
	done, err := admin.DeleteTopics(ctx, job.Topic)
	if err != nil {
		return nil, err
	}
	return nil, done.Error()
}

func describeConfigs(ctx context.Context, admin *kadm.Client, job jobs.Job) (jobs.Answer, error) {
	describe := admin.DescribeTopicConfigs
	if job.Resource == "broker" {
		describe = describeBroker(admin)
	}
	resources, err := describe(ctx, job.Name)
	if err != nil {
		return nil, err
	}
	configs := map[string]jobs.Config{}
	for _, resource := range resources {
		if resource.Err != nil {
			return nil, resource.Err
		}
		for _, config := range resource.Configs {
			isDefault := config.Source.String() == "DEFAULT_CONFIG"
			configs[config.Key] = jobs.Config{Value: config.Value, Default: isDefault}
		}
	}
	return jobs.Answer{"configs": configs}, nil
}

func describeBroker(
	admin *kadm.Client,
) func(context.Context, ...string) (kadm.ResourceConfigs, error) {
	return func(ctx context.Context, _ ...string) (kadm.ResourceConfigs, error) {
		brokers, err := admin.ListBrokers(ctx)
		if err != nil {
			return nil, err
		}
		return admin.DescribeBrokerConfigs(ctx, brokers.NodeIDs()...)
	}
}

func setConfigs(ctx context.Context, admin *kadm.Client, job jobs.Job) (jobs.Answer, error) {
	var changes []kadm.AlterConfig
	for name, value := range job.Configs {
		change := kadm.AlterConfig{Op: kadm.SetConfig, Name: name, Value: value}
		if value == nil {
			change.Op = kadm.DeleteConfig
		}
		changes = append(changes, change)
	}
	return altered(admin.AlterTopicConfigs(ctx, changes, job.Topic))
}

func replaceConfigs(ctx context.Context, admin *kadm.Client, job jobs.Job) (jobs.Answer, error) {
	var configs []kadm.AlterConfig
	for name, value := range job.Configs {
		configs = append(configs, kadm.AlterConfig{Name: name, Value: value})
	}
	return altered(admin.AlterTopicConfigsState(ctx, configs, job.Topic))
}

func altered(done kadm.AlterConfigsResponses, err error) (jobs.Answer, error) {
	if err != nil {
		return nil, err
	}
	for _, response := range done {
		if response.Err != nil {
			return nil, response.Err
		}
	}
	return nil, nil
}

func deleteRecords(ctx context.Context, admin *kadm.Client, job jobs.Job) (jobs.Answer, error) {
	var until kadm.Offsets
	until.AddOffset(job.Topic, job.Partition, job.Before, -1)
	done, err := admin.DeleteRecords(ctx, until)
	if err != nil {
		return nil, err
	}
	found, _ := done.Lookup(job.Topic, job.Partition)
	return jobs.Answer{"low_watermark": found.LowWatermark}, found.Err
}

func describeCluster(ctx context.Context, admin *kadm.Client, _ jobs.Job) (jobs.Answer, error) {
	cluster, err := admin.BrokerMetadata(ctx)
	if err != nil {
		return nil, err
	}
	var brokers []jobs.Broker
	for _, broker := range cluster.Brokers {
		brokers = append(brokers, jobs.Broker{ID: broker.NodeID, Host: broker.Host, Port: broker.Port})
	}
	return jobs.Answer{
		"cluster_id": cluster.Cluster, "controller": cluster.Controller, "brokers": brokers,
	}, nil
}

func describeLogDirs(ctx context.Context, admin *kadm.Client, job jobs.Job) (jobs.Answer, error) {
	described, err := admin.DescribeAllLogDirs(ctx, nil)
	if err != nil {
		return nil, err
	}
	sizes := map[int32]int64{}
	described.Each(func(folder kadm.DescribedLogDir) {
		folder.Topics.Each(func(partition kadm.DescribedLogDirPartition) {
			if partition.Topic == job.Topic {
				sizes[partition.Partition] = partition.Size
			}
		})
	})
	return jobs.Answer{"sizes": sizes}, nil
}

func code(err error) (int, bool) {
	var known *kerr.Error
	if errors.As(err, &known) {
		return int(known.Code), true
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
		"offset_at":         asking(offsetAt),
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
