// Perfetto's trace processor, as its viewer has it for browsers, between standard input and standard output.
//
//   node ci/perfetto-engine.js DIRECTORY      which has engine_bundle.js and trace_processor.wasm
//
// Both ways go the bytes of its protocol (TraceProcessorRpcStream), as its Python package writes and reads them.
'use strict';

const fs = require('node:fs');
const path = require('node:path');
const vm = require('node:vm');

const directory = path.resolve(process.argv[2] ?? '.');

/** A worker's way to read a file at once. */
class XMLHttpRequest {
  open(_method, address) {
    this.name = path.basename(new URL(address, 'http://localhost/').pathname);
  }
  send() {
    const bytes = fs.readFileSync(path.join(directory, this.name));
    this.response = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
  }
}

// A worker as in a browser: it is built for these, and refuses to begin where it finds node's `process`.
// What it says of system calls that a browser has not is of no use.
const quiet = { log() {}, warn() {}, error: console.error };
const { TextDecoder, TextEncoder, URL, crypto, performance, setTimeout } = globalThis;
const location = new URL('http://localhost/engine_bundle.js');
const worker = vm.createContext({
  XMLHttpRequest, TextDecoder, TextEncoder, URL, crypto, performance, setTimeout,
  console: quiet, location, WorkerGlobalScope: Object, importScripts() {},
});
worker.self = worker;
vm.runInContext(fs.readFileSync(path.join(directory, 'engine_bundle.js'), 'utf8'), worker);

const port = {
  postMessage(bytes) {
    for (let from = 0; from < bytes.length; from += fs.writeSync(1, bytes, from));
  },
};
worker.onmessage({ data: port });
// It takes arrays of its own kind alone.
const Bytes = vm.runInContext('Uint8Array', worker);
process.stdin.on('data', (bytes) => port.onmessage({ data: new Bytes(bytes) }));
