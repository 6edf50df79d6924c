// Prints what AsyncAPI's own schema says against the document that comes in: an empty list where it is one.
import { readFileSync } from "node:fs";
import Ajv from "ajv";

const schema = new URL("./node_modules/@asyncapi/specs/schemas/3.0.0.json", import.meta.url);
const ajv = new Ajv({ meta: false, validateSchema: false, validateFormats: false, strict: false, logger: false });
const check = ajv.compile(JSON.parse(readFileSync(schema)));
check(JSON.parse(readFileSync(0)));
console.log(JSON.stringify(check.errors ?? []));
