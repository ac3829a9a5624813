package main

import (
	"github.com/IBM/sarama"

	"odradek/clients/jobs"
)

func transactional(job jobs.Job) (sarama.SyncProducer, error) {
	config, err := configure(job)
	if err != nil {
		return nil, err
	}
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Idempotent = true
	config.Producer.Transaction.ID = job.TransactionalID
	config.Producer.Return.Successes = true
	config.Net.MaxOpenRequests = 1
	return sarama.NewSyncProducer([]string{job.Bootstrap}, config)
}

func begin(producer sarama.SyncProducer, job jobs.Job, values ...[]byte) error {
	if err := producer.BeginTxn(); err != nil {
		return err
	}
	var messages []*sarama.ProducerMessage
	for _, value := range values {
		messages = append(messages, message(job, jobs.Record{Value: value}))
	}
	return producer.SendMessages(messages)
}

func transact(job jobs.Job) (jobs.Answer, error) {
	producer, err := transactional(job)
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	for _, transaction := range job.Transactions {
		if err := begin(producer, job, transaction.Values...); err != nil {
			return nil, err
		}
		if transaction.Group != nil {
			offset := &sarama.PartitionOffsetMetadata{
				Partition: job.Partition, Offset: transaction.Offset, LeaderEpoch: -1,
			}
			offsets := map[string][]*sarama.PartitionOffsetMetadata{job.Topic: {offset}}
			if err := producer.AddOffsetsToTxn(offsets, *transaction.Group); err != nil {
				return nil, err
			}
		}
		end := producer.AbortTxn
		if transaction.Commit {
			end = producer.CommitTxn
		}
		if err := end(); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

func beFenced(job jobs.Job) (jobs.Answer, error) {
	first, err := transactional(job)
	if err != nil {
		return nil, err
	}
	defer first.Close()
	if err := begin(first, job, []byte("z")); err != nil {
		return nil, err
	}
	second, err := transactional(job)
	if err != nil {
		return nil, err
	}
	defer second.Close()
	return nil, first.CommitTxn()
}
