// kafkajs as a member of a consumer group, with the lines of tests/integration/group_member.py.
// Arguments: BOOTSTRAP GROUP TOPIC ASSIGNOR.

const { Kafka, PartitionAssigners, logLevel } = require('kafkajs')

const [bootstrap, groupId, topic, assignor] = process.argv.slice(2)

const say = (...words) => console.log(words.join(' '))

// kafkajs has one assigner, under a name of its own; among others it must go by the group's name.
const roundRobin = config => ({ ...PartitionAssigners.roundRobin(config), name: assignor })

const kafka = new Kafka({ brokers: [bootstrap], logLevel: logLevel.ERROR, retry: { initialRetryTime: 50 } })
const consumer = kafka.consumer({
  groupId,
  partitionAssigners: [roundRobin],
  sessionTimeout: 6000,
  heartbeatInterval: 500,
  rebalanceTimeout: 30000,
  maxWaitTimeInMs: 200,
  allowAutoTopicCreation: false,
})

let held = []

const giveUp = () => {
  if (held.length) say('revoked', held)
  held = []
}

consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
  giveUp() // a member that was dropped joins anew without a rebalance of its own
  held = payload.memberAssignment[topic] || []
  say('assigned', held)
})
consumer.on(consumer.events.REBALANCING, giveUp)

// A handler that throws makes kafkajs read from the committed offset again.
const eachMessage = async ({ partition, message }) => {
  say('got', partition, message.offset)
  await consumer.commitOffsets([{ topic, partition, offset: String(BigInt(message.offset) + 1n) }])
}

const main = async () => {
  say('ready')
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  process.on('SIGTERM', async () => {
    await consumer.disconnect()
    say('closed')
    process.exit(0)
  })
  await consumer.run({ autoCommit: false, eachMessage })
}

main()
