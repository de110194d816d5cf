// A graphile-worker process of the benchmark: runs jobs until a signal stops it.
//
// Its settings are those of the manual's page on performance. A job writes the same stamps as in `effects.py`: three 64-bit
// words (first start, last end, number of ends) in the slot of its index. Node maps no files, so a stamp is one `pwrite`
// (for a no-op one in all, about two microseconds); what the file held at the start is read once, as no two processes
// that live at the same time run the same job.

const fs = require("node:fs");
const { setTimeout: sleep } = require("node:timers/promises");
const { Logger, run } = require("graphile-worker");

const CONCURRENCY = 24;
const LOCAL_QUEUE = 500;
const POLL_MS = 100;
const SLOT_BYTES = 24;

const [, , connectionString, stampsPath] = process.argv;
const file = fs.openSync(stampsPath, "r+");
const slots = fs.readFileSync(stampsPath);

function now() {
  return BigInt(Math.round((performance.timeOrigin + performance.now()) * 1e6));
}

function write(base) {
  fs.writeSync(file, slots, base, SLOT_BYTES, base);
}

function start(base) {
  if (slots.readBigUInt64LE(base) === 0n) {
    slots.writeBigUInt64LE(now(), base);
  }
}

function end(base) {
  slots.writeBigUInt64LE(slots.readBigUInt64LE(base + 16) + 1n, base + 16);
  slots.writeBigUInt64LE(now(), base + 8);
  write(base);
}

async function job({ argument }) {
  const base = Number(argument.slice(0, 8)) * SLOT_BYTES;
  const napMs = Number(argument.slice(8, 12));
  start(base);
  if (napMs > 0) {
    write(base);
    await sleep(napMs);
  }
  end(base);
}

// what went wrong reaches the bench through this log; a line for every job would be measured with it
const logger = new Logger(() => (level, message) => {
  if (level === "error" || level === "warning") {
    console.error(message);
  }
});

async function main() {
  const runner = await run({
    preset: {
      worker: {
        connectionString,
        concurrentJobs: CONCURRENCY,
        maxPoolSize: CONCURRENCY + 1,
        pollInterval: POLL_MS,
        localQueue: { size: LOCAL_QUEUE },
        completeJobBatchDelay: 0,
        failJobBatchDelay: 0,
        logger,
      },
    },
    taskList: { job },
  });
  await runner.promise;
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
