// An agent in JavaScript: it appends messages and reads the view for its next call. The protocol: infra/docs/protocol.md.
//
//   node agent.mjs nats://127.0.0.1:4222 ticket-4312 '[{"role":"user","content":"Why do the payouts fail?"}]'

import { createHash, randomBytes } from "node:crypto";
import { encode } from "@msgpack/msgpack";
import { connect, createInbox, headers } from "@nats-io/transport-node";

const PATIENCE_MS = 30_000; // for whoever is to answer; a restart takes ten seconds
const SILENCE_MS = 3_000; // without a sign of life somebody else is asked
const pause = (ms) => new Promise((done) => setTimeout(done, ms));
const bytes = (value) => new TextEncoder().encode(JSON.stringify(value));

class Conversation {
  constructor(nats, name, tenant = "default") {
    this.nats = nats;
    this.at = `${tenant}.${name}`; // safe names; others are encoded, as protocol.md says
    this.writer = randomBytes(16).toString("base64url");
    this.count = 0;
    this.seq = 0;
  }

  // Say that it begins, with the agent's layer of the policy.
  open(name, { model = "", policy = {} } = {}) {
    return this.say(["ConversationOpened.1", name, model, bytes(policy), true]);
  }

  // Append messages as the provider's API has them; returned means durable.
  append(messages) {
    return this.say(["MessagesAppended.1", messages.map((message) => [bytes(message), []])]);
  }

  async say(fact) {
    this.count += 1;
    const body = encode(["said.1", this.writer, this.count, [fact], Date.now()]);
    const id = createHash("sha256").update(`${this.writer}/${this.count}`).digest("hex").slice(0, 32);
    for (const ends = Date.now() + PATIENCE_MS; ; await pause(200)) {
      try {
        const about = headers();
        about.set("Nats-Msg-Id", id); // the same one with each repeat: it is stored once
        const answer = await this.nats.request(`ctx.v1.log.${this.at}.said`, body, { headers: about, timeout: 2_000 });
        const stored = answer.json();
        if (stored.error) throw new Error(`NATS did not store it: ${stored.error.description}`);
        this.seq = stored.seq;
        return this.seq;
      } catch (error) {
        const lasts = !["TimeoutError", "NoRespondersError", "RequestError"].includes(error.name);
        if (lasts || Date.now() > ends) throw error;
      }
    }
  }

  // Return the messages of the next call, and what is known of them.
  async context(budget = 0) {
    const asked = { upto_seq: this.seq, budget, wait_seconds: PATIENCE_MS / 1000 };
    const { answer, body } = await this.ask("context", asked);
    return { ...answer.context, messages: JSON.parse(body) };
  }

  async ask(verb, question) {
    for (const ends = Date.now() + PATIENCE_MS; ; await pause(200)) {
      const found = await this.askOnce(verb, question);
      if (found.answer?.fault) throw Object.assign(new Error(found.answer.fault.message), found.answer.fault);
      if (found.answer) return found;
      if (Date.now() > ends) throw new Error(`nobody answers ${verb}: is a worker running?`);
    }
  }

  async askOnce(verb, question) {
    const inbox = createInbox(this.nats.options.inboxPrefix);
    const answers = this.nats.subscribe(inbox);
    const hangUp = () => answers.unsubscribe();
    let silence = setTimeout(hangUp, SILENCE_MS);
    let answer;
    const frames = [];
    this.nats.publish(`ctx.v1.ask.${verb}.${this.at}`, JSON.stringify(question), { reply: inbox });
    for await (const message of answers) {
      clearTimeout(silence);
      if (message.headers?.code === 503) break; // nobody serves now
      silence = setTimeout(hangUp, SILENCE_MS);
      if (message.headers?.get("Status") === "100") continue; // somebody works on it
      if (!answer) answer = message.json();
      else frames.push(message.data);
      if (frames.length === answer.frames || answer.fault) break;
    }
    clearTimeout(silence);
    const whole = answer && (answer.fault || frames.length === answer.frames);
    return whole ? { answer, body: Buffer.concat(frames).toString() } : {};
  }
}

const [url, name, said, policy = "{}"] = process.argv.slice(2);
const nats = await connect({ servers: url });
const talk = new Conversation(nats, name);
await talk.open(name, { model: "gpt-4o", policy: JSON.parse(policy) });
await talk.append(JSON.parse(said));
const context = await talk.context();
console.log(JSON.stringify({ tokens: context.tokens, messages: context.messages }));
await nats.close();
