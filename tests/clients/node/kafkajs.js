// kafkajs as a driver: one JSON job a line in, one JSON answer a line out.
// tests/clients/driver.py has the vocabulary. kafkajs reads only in consumer groups; to read one
// partition, its own connections and its own Fetch are used here without a group.

const readline = require('readline')
const { CompressionCodecs, CompressionTypes, ConfigResourceTypes, Kafka, logLevel } = require('kafkajs')
const snappy = require('kafkajs-snappy')

CompressionCodecs[CompressionTypes.Snappy] = snappy

const TIMEOUT = 20000
const EARLIEST = -2
const LATEST = -1
const ACKS = { 0: 0, 1: 1, all: -1 }
const APPEND_TIME = 8

const pack = bytes => (bytes === null || bytes === undefined ? null : Buffer.from(bytes).toString('base64'))
const unpack = text => (text === null ? null : Buffer.from(text, 'base64'))

const kafkaOf = job =>
  new Kafka({
    brokers: [job.bootstrap],
    clientId: job.client_id,
    logLevel: logLevel.NOTHING,
    retry: { retries: 5, initialRetryTime: 50 },
  })

const withConnected = async (client, use) => {
  await client.connect()
  try {
    return await use(client)
  } finally {
    await client.disconnect()
  }
}

const asking = ask => job => withConnected(kafkaOf(job).admin(), admin => ask(admin, job))

const clusterOf = job => {
  const kafka = kafkaOf(job)
  const createCluster = Object.getOwnPropertySymbols(kafka).find(symbol =>
    String(symbol).includes('createCluster')
  )
  return kafka[createCluster]({ allowAutoTopicCreation: false })
}

// Headers of one name become an array, since kafkajs keeps them in an object.
const headersToSend = headers =>
  headers.reduce((all, { name, value }) => ({ ...all, [name]: [...(all[name] || []), unpack(value)] }), {})

const headersReceived = headers =>
  Object.entries(headers || {}).flatMap(([name, values]) =>
    (Array.isArray(values) ? values : [values]).map(value => ({ name, value: pack(value) }))
  )

const produce = job => {
  const producer = kafkaOf(job).producer({
    idempotent: job.idempotent,
    maxInFlightRequests: job.idempotent ? 1 : null,
    createPartitioner: () => () => job.partition,
  })
  return withConnected(producer, async () => {
    const [sent] = await producer.send({
      topic: job.topic,
      acks: ACKS[job.acks],
      timeout: TIMEOUT,
      compression: CompressionTypes[job.codec.toUpperCase()] ?? CompressionTypes.Snappy,
      messages: job.records.map(record => ({
        key: unpack(record.key),
        value: unpack(record.value),
        headers: headersToSend(record.headers),
        timestamp: record.timestamp === null ? undefined : String(record.timestamp),
        partition: job.partition,
      })),
    })
    const base = sent ? Number(sent.baseOffset) : NaN
    return { offsets: job.records.map((_, index) => base + index) }
  })
}

const received = message => ({
  offset: Number(message.offset),
  timestamp: Number(message.timestamp),
  timestamp_type: message.batchContext.timestampType === 1 ? 'append' : 'create',
  key: pack(message.key),
  value: pack(message.value),
  headers: headersReceived(message.headers),
})

const consume = job =>
  withConnected(clusterOf(job), async cluster => {
    await cluster.addTargetTopic(job.topic)
    const [nodeId] = Object.keys(cluster.findLeaderForPartitions(job.topic, [job.partition]))
    const broker = await cluster.findBroker({ nodeId })
    const records = []
    let offset = job.offset < 0 ? (await offsetAt({ ...job, at: job.offset })).offset : job.offset
    const deadline = Date.now() + TIMEOUT
    while (records.length < job.count && Date.now() < deadline) {
      const partition = { partition: job.partition, fetchOffset: String(offset), maxBytes: 1048576 }
      const { responses } = await broker.fetch({
        isolationLevel: 1,
        maxWaitTime: 100,
        topics: [{ topic: job.topic, partitions: [partition] }],
      })
      const { messages } = responses[0].partitions[0]
      const news = messages.filter(message => Number(message.offset) >= offset)
      records.push(...news.map(received))
      if (news.length) offset = Number(news[news.length - 1].offset) + 1
    }
    return { records: records.slice(0, job.count) }
  })

const consumeInGroup = job =>
  withConnected(kafkaOf(job).consumer({ groupId: job.group, maxWaitTimeInMs: 100 }), async consumer => {
    const records = []
    const last = new Map()
    await consumer.subscribe({ topic: job.topic, fromBeginning: true })
    await new Promise((resolve, reject) => {
      setTimeout(() => reject(new Error('not enough records came')), TIMEOUT).unref()
      const eachMessage = async ({ partition, message }) => {
        records.push(received(message))
        last.set(partition, Number(message.offset))
        if (records.length >= job.count) resolve()
      }
      consumer.run({ autoCommit: false, eachMessage }).catch(reject)
    })
    const offsets = [...last].map(([partition, offset]) => ({
      topic: job.topic,
      partition,
      offset: String(offset + 1),
    }))
    await consumer.commitOffsets(offsets)
    return { records }
  })

const transactionalProducer = job =>
  kafkaOf(job).producer({
    transactionalId: job.transactional_id,
    idempotent: true,
    maxInFlightRequests: 1,
  })

const sendTo = (transaction, job, values) =>
  transaction.send({
    topic: job.topic,
    messages: values.map(value => ({ value, partition: job.partition })),
  })

const transact = job =>
  withConnected(transactionalProducer(job), async producer => {
    for (const { values, commit, group, offset } of job.transactions) {
      const transaction = await producer.transaction()
      await sendTo(transaction, job, values.map(unpack))
      if (group !== null) {
        const partitions = [{ partition: job.partition, offset: String(offset) }]
        const topics = [{ topic: job.topic, partitions }]
        await transaction.sendOffsets({ consumerGroupId: group, topics })
      }
      await (commit ? transaction.commit() : transaction.abort())
    }
  })

const beFenced = job =>
  withConnected(transactionalProducer(job), async first => {
    const transaction = await first.transaction()
    await sendTo(transaction, job, [Buffer.from('z')])
    return withConnected(transactionalProducer(job), async second => {
      const other = await second.transaction()
      await sendTo(other, job, [Buffer.from('y')])
      await other.abort()
      await transaction.commit()
    })
  })

const ofPartition = (rows, job) => rows.find(row => row.partition === job.partition)

const offsetAt = asking(async (admin, job) => {
  if (job.at >= 0) {
    const rows = await admin.fetchTopicOffsetsByTimestamp(job.topic, job.at)
    return { offset: Number(ofPartition(rows, job).offset) }
  }
  const found = ofPartition(await admin.fetchTopicOffsets(job.topic), job)
  return { offset: Number(job.at === LATEST ? found.high : found.low) }
})

const createTopic = asking(async (admin, job) => {
  const configEntries = Object.entries(job.configs).map(([name, value]) => ({ name, value }))
  const topic = { topic: job.topic, numPartitions: job.partitions, replicationFactor: 1, configEntries }
  const isNew = await admin.createTopics({
    topics: [topic],
    validateOnly: job.validate_only,
    waitForLeaders: !job.validate_only,
    timeout: TIMEOUT,
  })
  // kafkajs answers false, and no error, for a topic that is there already.
  if (!isNew) throw Object.assign(new Error('the topic exists'), { code: 36 })
})

const listTopics = asking(async admin => ({ topics: await admin.listTopics() }))

const describeTopic = asking(async (admin, job) => {
  const { topics } = await admin.fetchTopicMetadata({ topics: [job.topic] })
  return {
    partitions: topics[0].partitions.map(({ partitionId, leader, replicas, isr }) => ({
      id: partitionId,
      leader,
      replicas,
      isr,
    })),
  }
})

const createPartitions = asking(async (admin, job) => {
  await admin.createPartitions({ topicPartitions: [{ topic: job.topic, count: job.total }] })
})

const deleteTopic = asking(async (admin, job) => {
  await admin.deleteTopics({ topics: [job.topic] })
})

const describeConfigs = asking(async (admin, job) => {
  const type = ConfigResourceTypes[job.resource.toUpperCase()]
  const { resources } = await admin.describeConfigs({ resources: [{ type, name: job.name }] })
  const rows = resources[0].configEntries.map(entry => [
    entry.configName,
    { value: entry.configValue, default: entry.isDefault ?? entry.configSource === 5 },
  ])
  return { configs: Object.fromEntries(rows) }
})

const replaceConfigs = asking(async (admin, job) => {
  const configEntries = Object.entries(job.configs).map(([name, value]) => ({ name, value }))
  const type = ConfigResourceTypes.TOPIC
  await admin.alterConfigs({ resources: [{ type, name: job.topic, configEntries }] })
})

const deleteRecords = asking(async (admin, job) => {
  const partitions = [{ partition: job.partition, offset: String(job.before) }]
  await admin.fetchTopicOffsets(job.topic) // so that it knows the leaders, which it does not look up
  await admin.deleteTopicRecords({ topic: job.topic, partitions })
  const found = ofPartition(await admin.fetchTopicOffsets(job.topic), job)
  return { low_watermark: Number(found.low) }
})

const describeCluster = asking(async admin => {
  const { brokers, controller, clusterId } = await admin.describeCluster()
  const rows = brokers.map(({ nodeId, host, port }) => ({ id: nodeId, host, port }))
  return { cluster_id: clusterId, controller, brokers: rows }
})

const VERBS = {
  produce,
  consume,
  consume_in_group: consumeInGroup,
  transact,
  be_fenced: beFenced,
  offset_at: offsetAt,
  create_topic: createTopic,
  list_topics: listTopics,
  describe_topic: describeTopic,
  create_partitions: createPartitions,
  delete_topic: deleteTopic,
  describe_configs: describeConfigs,
  replace_configs: replaceConfigs,
  delete_records: deleteRecords,
  describe_cluster: describeCluster,
}

// Errors of several topics or partitions come in a list; retried ones have their first cause.
const codeOf = error => {
  const [first] = error.errors || error.partitions || []
  if (first) return codeOf(first.error || first)
  if (typeof error.code === 'number' && error.code >= 0) return error.code
  return error.cause ? codeOf(error.cause) : null
}

const answer = async job => {
  try {
    return { ok: (await VERBS[job.verb](job)) ?? null }
  } catch (error) {
    console.error(error)
    return { error: { code: codeOf(error), text: String(error.stack) } }
  }
}

const main = async () => {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    console.log(JSON.stringify(await answer(JSON.parse(line))))
  }
}

main()
