// code-server needs argon2, a native module, only to hash a password; without one it is never called.
const Module = require('node:module');
const load = Module._load;
Module._load = function (id, ...rest) {
  return id === 'argon2' ? { hash: async () => '', verify: async () => false } : load.call(this, id, ...rest);
};
