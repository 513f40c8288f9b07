// What the tests of both clients share.
import assert from "node:assert/strict";

/** Where the server is: the first argument, HOST:PORT. */
const [host, port] = (process.argv[2] ?? "127.0.0.1:6379").split(":");
export const where = { host, port: Number(port) };
export const url = `redis://${host}:${port}`;

/** Waits until `condition` holds, 10 s at most. */
export async function until(condition, what) {
  const deadline = Date.now() + 10_000;
  while (!(await condition())) {
    assert.ok(Date.now() < deadline, `waited in vain: ${what}`);
    await new Promise((done) => setTimeout(done, 10));
  }
}

/** Runs the tests one after the other: { name: async function }. Ends the process: a connection left open must not hold it. */
export async function run(tests) {
  let failed = 0;
  for (const [name, test] of Object.entries(tests)) {
    let timer;
    const limit = new Promise((_, fail) => (timer = setTimeout(() => fail(new Error("it takes longer than 30 s")), 30_000)));
    try {
      await Promise.race([test(), limit]);
      console.log(`ok ${name}`);
    } catch (error) {
      failed += 1;
      console.log(`not ok ${name}\n${error?.stack ?? error}`);
    }
    clearTimeout(timer);
  }
  console.log(`${Object.keys(tests).length - failed} passed, ${failed} failed`);
  process.exit(failed ? 1 : 0);
}
