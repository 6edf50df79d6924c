// An agent of the AI SDK, as small as one can be: `node agent.mjs API [--continue] PROMPT`. Its session is a file.
import { exec } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { isStepCount, jsonSchema, streamText, tool } from "ai";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";

const api = process.argv[2];
const { AI_URL: baseURL, AI_KEY: apiKey, AI_RUN: run, AI_MODEL: name, AI_SESSION: file } = process.env;
const server = { baseURL, apiKey, headers: { "x-run": run } };
const model = {
  chat: () => createOpenAI(server).chat(name),
  responses: () => createOpenAI(server).responses(name),
  messages: () => createAnthropic(server)(name),
}[api]();

const bash = tool({
  description: "Run a command.",
  inputSchema: jsonSchema({ type: "object", properties: { command: { type: "string" } }, required: ["command"] }),
  execute: ({ command }) =>
    new Promise((done) => exec(command, { maxBuffer: 2 ** 26 }, (error, out, err) => done(out + err || String(error)))),
});

const messages = process.argv.includes("--continue") && existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : [];
messages.push({ role: "user", content: process.argv.at(-1) });
let failed;
const answer = streamText({
  model,
  messages,
  tools: { bash },
  maxOutputTokens: 2000,
  maxRetries: 0,
  stopWhen: isStepCount(1000),
  onError: ({ error }) => (failed = error),
});
for await (const words of answer.textStream) process.stdout.write(words);
if (failed) {
  console.error(String(failed));
  process.exit(1);
}
for (const step of await answer.steps) messages.push(...step.response.messages);
writeFileSync(file, JSON.stringify(messages));
