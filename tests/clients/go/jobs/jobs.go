// Package jobs is the loop of the Go programs: one JSON job a line in, one JSON answer a line out.
// tests/clients/driver.py has the vocabulary.
package jobs

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"
)

const (
	Latest       = -1
	Earliest     = -2
	MaxTimestamp = -3

	Timeout = 20 * time.Second
)

// Header is a record's header; a nil value is null.
type Header struct {
	Name  string `json:"name"`
	Value []byte `json:"value"`
}

// Record is a record to send or one that was received. Bytes travel as base64, nil as null.
type Record struct {
	Offset        int64    `json:"offset"`
	Timestamp     *int64   `json:"timestamp"`
	TimestampType *string  `json:"timestamp_type"`
	Key           []byte   `json:"key"`
	Value         []byte   `json:"value"`
	Headers       []Header `json:"headers"`
}

// Job has the arguments of all verbs.
type Job struct {
	Verb         string             `json:"verb"`
	Bootstrap    string             `json:"bootstrap"`
	ClientID     string             `json:"client_id"`
	Settings     map[string]string  `json:"settings"`
	Topic        string             `json:"topic"`
	Group        string             `json:"group"`
	Partition    int32              `json:"partition"`
	Records      []Record           `json:"records"`
	Acks         string             `json:"acks"`
	Codec        string             `json:"codec"`
	Idempotent   bool               `json:"idempotent"`
	Offset       int64              `json:"offset"`
	Count        int                `json:"count"`
	At           int64              `json:"at"`
	Partitions   int32              `json:"partitions"`
	Total        int32              `json:"total"`
	Configs      map[string]*string `json:"configs"`
	ValidateOnly bool               `json:"validate_only"`
	Resource     string             `json:"resource"`
	Name         string             `json:"name"`
	Before       int64              `json:"before"`
	Committed    bool               `json:"committed"`

	TransactionalID string        `json:"transactional_id"`
	Transactions    []Transaction `json:"transactions"`
}

// Transaction is what happens in one transaction; a nil group commits no offset.
type Transaction struct {
	Values [][]byte `json:"values"`
	Commit bool     `json:"commit"`
	Group  *string  `json:"group"`
	Offset int64    `json:"offset"`
}

// Answer is what a verb returns when all went well.
type Answer map[string]any

// Verb does a job.
type Verb func(Job) (Answer, error)

// Partition is a row of describe_topic.
type Partition struct {
	ID       int32   `json:"id"`
	Leader   int32   `json:"leader"`
	Replicas []int32 `json:"replicas"`
	ISR      []int32 `json:"isr"`
}

// Config is a row of describe_configs.
type Config struct {
	Value   *string `json:"value"`
	Default bool    `json:"default"`
}

// Broker is a row of describe_cluster.
type Broker struct {
	ID   int32  `json:"id"`
	Host string `json:"host"`
	Port int32  `json:"port"`
}

// SplitAddress makes host and port of "host:port".
func SplitAddress(address string) (string, int32) {
	host, digits, err := net.SplitHostPort(address)
	port, notNumber := strconv.Atoi(digits)
	if err != nil || notNumber != nil {
		return address, -1
	}
	return host, int32(port)
}

// Time is the timestamp of a record to send, or now.
func (record Record) Time() time.Time {
	if record.Timestamp == nil {
		return time.Now()
	}
	return time.UnixMilli(*record.Timestamp)
}

// TimestampType is the name of one of the two kinds of timestamps.
func TimestampType(isAppendTime bool) *string {
	name := "create"
	if isAppendTime {
		name = "append"
	}
	return &name
}

// Millis is a received timestamp as it travels.
func Millis(at time.Time) *int64 {
	millis := at.UnixMilli()
	return &millis
}

// Serve does jobs until the input ends; code finds Kafka's code in an error.
func Serve(verbs map[string]Verb, code func(error) (int, bool)) {
	input := bufio.NewReader(os.Stdin)
	output := json.NewEncoder(os.Stdout)
	for {
		line, err := input.ReadBytes('\n')
		if err != nil {
			return
		}
		if err := output.Encode(answer(line, verbs, code)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return
		}
	}
}

func answer(line []byte, verbs map[string]Verb, code func(error) (int, bool)) Answer {
	var job Job
	if err := json.Unmarshal(line, &job); err != nil {
		return failure(err, nil)
	}
	result, err := verbs[job.Verb](job)
	if err == nil {
		return Answer{"ok": result}
	}
	fmt.Fprintf(os.Stderr, "%s: %v\n", job.Verb, err)
	if number, known := code(err); known {
		return failure(err, &number)
	}
	return failure(err, nil)
}

func failure(err error, code *int) Answer {
	return Answer{"error": Answer{"code": code, "text": err.Error()}}
}
