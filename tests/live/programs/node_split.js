// Spends its time in functions of each kind, for so many seconds of the CPU, and prints how many
// microseconds of the CPU each took.
'use strict';

const told = {recursion: 0, closures: 0, sorting: 0, generating: 0, raising: 0, inlining: 0,
  serializing: 0, awaiting: 0};

function recursion(n) {
  return n < 2 ? n :
    recursion(n - 1) + recursion(n - 2);
}

function closures() {
  let sum = 0;
  const add = (i) => { sum = (sum * 31 + i) % 1000003; };
  for (let i = 0; i < 600000; i++) add(i);
  return sum;
}

function sorting() {
  const numbers = Array.from({length: 20000}, (_, i) => (i * 7919) % 20011);
  return numbers.sort(function compared(a, b) { return a - b; })[0];
}

function* counted(n) {
  for (let i = 0; i < n; i++) yield i;
}

function generating() {
  let sum = 0;
  for (const i of counted(200000)) sum += i;
  return sum;
}

function raised(i) {
  throw new RangeError('number ' + i);
}

function raising() {
  let caught = 0;
  for (let i = 0; i < 3000; i++) {
    try {
      raised(i);
    } catch (error) {
      caught += error.message.length;
    }
  }
  return caught;
}

function leaf(x) {
  let sum = x;
  for (let i = 0; i < 40; i++) sum = (sum * 31 + i) % 1000003;
  return sum;
}

function inlining() {
  let sum = 0;
  for (let i = 0; i < 40000; i++)
    sum += leaf(i);
  return sum;
}

const items = Array.from({length: 1000}, (_, i) => ({price: i * 1.5, name: 'item ' + i}));

function serializing() {
  let length = 0;
  for (let i = 0; i < 20; i++) length += JSON.stringify(JSON.parse(JSON.stringify(items))).length;
  return length;
}

async function later(i) {
  return i;
}

async function awaiting() {
  let sum = 0;
  for (let i = 0; i < 20000; i++) sum += await later(i);
  return sum;
}

function usedMicroseconds() {
  const used = process.cpuUsage();
  return used.user + used.system;
}

async function spin(seconds) {
  const end = usedMicroseconds() + 1e6 * seconds;
  while (usedMicroseconds() < end) {
    const works = {recursion: () => recursion(24), closures, sorting, generating, raising,
      inlining, serializing};
    for (const [name, work] of Object.entries(works)) {
      const begun = usedMicroseconds();
      work();
      told[name] += usedMicroseconds() - begun;
    }
    const begun = usedMicroseconds();
    await awaiting();
    told.awaiting += usedMicroseconds() - begun;
  }
}

spin(Number(process.argv[2])).then(() => console.log(JSON.stringify(told)));
