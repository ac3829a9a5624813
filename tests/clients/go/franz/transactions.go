package main

import (
	"github.com/twmb/franz-go/pkg/kgo"

	"odradek/clients/jobs"
)

func transactional(job jobs.Job) (*kgo.Client, error) {
	return connect(job,
		kgo.TransactionalID(job.TransactionalID), kgo.RecordPartitioner(kgo.ManualPartitioner()))
}

func begin(client *kgo.Client, job jobs.Job, values ...[]byte) error {
	if err := client.BeginTransaction(); err != nil {
		return err
	}
	ctx, cancel := within()
	defer cancel()
	var records []*kgo.Record
	for _, value := range values {
		records = append(records,
			&kgo.Record{Topic: job.Topic, Partition: job.Partition, Value: value})
	}
	return client.ProduceSync(ctx, records...).FirstErr()
}

func end(client *kgo.Client, commit bool) error {
	ctx, cancel := within()
	defer cancel()
	return client.EndTransaction(ctx, kgo.TransactionEndTry(commit))
}

func transact(job jobs.Job) (jobs.Answer, error) {
	client, err := transactional(job)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	for _, transaction := range job.Transactions {
		if err := begin(client, job, transaction.Values...); err != nil {
			return nil, err
		}
		if err := end(client, transaction.Commit); err != nil {
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
	if err := begin(second, job, []byte("y")); err != nil {
		return nil, err
	}
	if err := end(second, false); err != nil {
		return nil, err
	}
	return nil, end(first, true)
}
