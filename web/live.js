'use strict';
// The page's script: the buttons, and images of what the C++ (web/live.cpp) answers. Nothing is computed here
// but colors.
(() => {
const $ = id => document.getElementById(id);
const SIDE = 12, LEVELS = 4, HALF = SIDE * SIDE / 2, STEPS = 150;
let engine = null;  // of a promise, once a button asked for it

// ---- The program ------------------------------------------------------------------------------------------

async function unpack() {
  const bytes = Uint8Array.from(atob($('program').textContent.trim()), c => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Response(stream).arrayBuffer();
}

function start() {
  engine ??= unpack().then(wasmBinary => makeLinea({wasmBinary})).then(module => (name, ...values) => {
    const types = values.map(value => typeof value);
    const answer = JSON.parse(module.ccall(name, 'string', types, values));
    if (answer.error) throw new Error(answer.error);
    return answer;
  });
  return engine;
}

const pause = () => new Promise(resolve => setTimeout(resolve));
const shown = () => new Promise(resolve => {
  if (!document.hidden) return resolve();
  document.addEventListener('visibilitychange', () => resolve(), {once: true});
});

function say(id, text, isError = false) {
  $(id).textContent = text;
  $(id).classList.toggle('bad', isError);
}

// ---- Images ------------------------------------------------------------------------------------------------

function canvas(label, width, height, shownWidth) {
  const made = document.createElement('canvas');
  made.width = width;
  made.height = height;
  made.className = 'pixels w' + shownWidth;
  made.setAttribute('role', 'img');
  made.setAttribute('aria-label', label);
  return made;
}

// Gray levels; those past the tokens stay as they are.
function paintTokens(target, tokens) {
  const context = target.getContext('2d');
  tokens.forEach((token, i) => {
    const gray = Math.round(token * 255 / (LEVELS - 1));
    context.fillStyle = `rgb(${gray},${gray},${gray})`;
    context.fillRect(i % SIDE, Math.floor(i / SIDE), 1, 1);
  });
}

function clear(target) {
  const context = target.getContext('2d');
  context.fillStyle = '#000';
  context.fillRect(0, 0, target.width, target.height);
}

// Positive numbers blue, negative ones orange, the largest full.
function paintMatrix(target, rows) {
  target.width = rows[0].length;
  target.height = rows.length;
  const most = Math.max(1e-9, ...rows.flat().map(Math.abs)), context = target.getContext('2d');
  rows.forEach((row, y) => row.forEach((x, column) => {
    context.fillStyle = x < 0 ? '#D55E00' : '#0072B2';
    context.globalAlpha = Math.abs(x) / most;
    context.fillRect(column, y, 1, 1);
  }));
}

function images(container, labels) {
  container.replaceChildren();
  return labels.map(label => {
    const figure = document.createElement('figure'), caption = document.createElement('figcaption');
    const image = canvas('image of ' + label, SIDE, SIDE, 3);
    caption.textContent = label;
    figure.append(image, caption);
    container.append(figure);
    clear(image);
    return image;
  });
}

function drawCurve(losses) {
  const width = 600, height = 150, top = Math.max(...losses), last = losses.length - 1;
  const x = i => last ? i / Math.max(last, STEPS) * width : 0, y = loss => height - loss / top * (height - 10);
  $('line').setAttribute('points', losses.map((loss, i) => `${x(i).toFixed(1)},${y(loss).toFixed(1)}`).join(' '));
  say('top', top.toFixed(2));
}

// ---- Training ---------------------------------------------------------------------------------------------

let losses = [], batch = 8, running = false, busy = false, trained = false;

async function newModel() {
  const call = await start(), attention = $('softmax').checked ? 'softmax' : 'linear:rule=gated';
  if (!losses.length) {  // a browser's first pass through a program is slow: by one image
    call('live_start', attention, 1, 1);
    await pause();
    call('live_step');
    await pause();
  }
  const about = call('live_start', attention, 1, batch);
  await pause();
  losses = [];
  trained = true;
  say('size', `${about.parameters} parameters, ${about.tokens} tokens a step`);
}

async function oneStep() {
  const call = await start();
  if (!trained) await newModel();
  const began = performance.now(), answer = call('live_step'), seconds = (performance.now() - began) / 1000;
  losses.push(answer.loss);
  drawCurve(losses);
  const speed = Math.round(batch * SIDE * SIDE / seconds);
  $('status').dataset.loss = answer.loss;
  say('status', `step ${answer.step}: loss ${answer.loss.toFixed(3)} nats a pixel, ${speed} tokens/s`);
  if (answer.step === 5 && seconds > 0.15 && batch === 8) {  // a slow machine: the page must stay awake
    batch = 4;
    await newModel();
  }
  $('complete').disabled = false;
  return answer.step;
}

// Samples of these classes, a few positions at a time; `upper` begins each.
async function sample(targets, classes, upper, seed) {
  const call = await start(), tokens = classes.map(() => []);
  call('live_sample', JSON.stringify(classes), JSON.stringify(upper), seed);
  for (let position = 0; position < SIDE * SIDE;) {
    await pause();
    await shown();
    const answer = call('live_next', 12);
    position = answer.position;
    answer.tokens.forEach(row => row.forEach((token, image) => tokens[image].push(token)));
    targets.forEach((target, image) => paintTokens(target, tokens[image]));
    say('bytes', `${answer.state.bytes} bytes after ${position} positions of ${classes.length} images`);
    if (answer.state.S) paintMatrix($('S'), answer.state.S);
    $('S').hidden = !answer.state.S;
  }
}

let targets = [];
const drawSamples = () => {
  if (!targets.length) targets = images($('samples'), ['0', '1', '2', '3', '4', '5', '6', '7']);
  return sample(targets, [0, 1, 2, 3, 4, 5, 6, 7], [], losses.length);
};

// One thing at a time; an error ends it and is shown.
async function alone(work) {
  if (busy) return;
  busy = true;
  try {
    await work();
  } catch (error) {
    say('status', String(error.message || error), true);
  }
  busy = running = false;
  say('run', 'Train');
}

async function train() {
  running = true;
  say('run', 'Stop');
  while (running) {
    await pause();
    await shown();
    const step = await oneStep();
    if (step % 10 === 0) await drawSamples();
    if (step === STEPS) return;  // the schedule ends; another press continues
  }
}

$('run').onclick = () => { if (running) running = false; else alone(train); };
$('step').onclick = () => alone(async () => { await oneStep(); await drawSamples(); });
$('again').onclick = () => alone(async () => { await newModel(); drawCurve([1]); say('status', 'a new model'); });
for (const id of ['gated', 'softmax']) $(id).onchange = () => { trained = running = false; };

// ---- Painting ---------------------------------------------------------------------------------------------

const painted = new Array(HALF).fill(0);
let cursor = 0;

function showPainted() {
  clear($('paint'));
  paintTokens($('paint'), painted);
  $('paint').setAttribute('aria-label', `upper half, ${painted.filter(Boolean).length} of ${HALF} pixels bright`);
}

function paintAt(event) {
  const box = $('paint').getBoundingClientRect();
  const column = Math.floor((event.clientX - box.left) / box.width * SIDE);
  const row = Math.floor((event.clientY - box.top) / box.height * SIDE / 2);
  if (column < 0 || column >= SIDE || row < 0 || row >= SIDE / 2) return;
  painted[row * SIDE + column] = LEVELS - 1;
  showPainted();
}

$('paint').onpointerdown = event => { $('paint').setPointerCapture(event.pointerId); paintAt(event); };
$('paint').onpointermove = event => { if (event.buttons) paintAt(event); };
$('paint').onkeydown = event => {
  const move = {ArrowLeft: -1, ArrowRight: 1, ArrowUp: -SIDE, ArrowDown: SIDE}[event.key];
  if (move) cursor = Math.min(HALF - 1, Math.max(0, cursor + move));
  else if (event.key === ' ') painted[cursor] = painted[cursor] ? 0 : LEVELS - 1;
  else return;
  event.preventDefault();
  showPainted();
  say('where', `row ${Math.floor(cursor / SIDE) + 1}, column ${cursor % SIDE + 1}`);
};
$('blank').onclick = () => { painted.fill(0); showPainted(); };
$('arch').onclick = () => {
  painted.fill(0);
  for (const [row, columns] of [[1, [5, 6]], [2, [4, 7]], [3, [3, 8]], [4, [8]], [5, [7]]])
    for (const column of columns) painted[row * SIDE + column] = LEVELS - 1;
  showPainted();
};
$('complete').onclick = () => alone(() => {
  const all = [...Array(10).keys()];
  return sample(images($('completed'), all.map(String)), all, painted, losses.length);
});

// ---- The bench --------------------------------------------------------------------------------------------

const NAMES = ['q', 'k', 'v', 'dy'];
const GATES = {sum: [], decay: [], gated: ['gate'], delta: ['beta'], 'gated-delta': ['beta', 'gate']};
const bench = {q: [[0, 0], [0, 1], [1, 0]], k: [[0, 1], [1, 0], [1, 1]], v: [[1], [2], [3]], dy: [[1], [1], [1]],
  gate: [1, 0.5, 0.5], beta: [1, 0.5, 1]};

function columns() {
  const gates = $('attention').value === 'linear' ? GATES[$('rule').value] : [];
  return [...NAMES.flatMap(name => bench[name][0].map((_, i) => [name, i])), ...gates.map(name => [name, -1])];
}

function drawBench() {
  const head = document.createElement('tr');
  head.append(...['t', ...columns().map(([name, i]) => name + (i + 1 || ''))].map(text => {
    const cell = document.createElement('th');
    cell.textContent = text;
    return cell;
  }));
  const rows = bench.q.map((_, t) => {
    const row = document.createElement('tr'), number = document.createElement('td');
    number.textContent = t + 1;
    row.append(number, ...columns().map(([name, i]) => {
      const cell = document.createElement('td'), input = document.createElement('input');
      input.value = i < 0 ? bench[name][t] : bench[name][t][i];
      input.inputMode = 'decimal';
      input.setAttribute('aria-label', `${name}${i + 1 || ''}, position ${t + 1}`);
      input.oninput = () => {
        const x = Number(input.value.replace(',', '.'));
        input.classList.toggle('bad', !Number.isFinite(x) || input.value.trim() === '');
        if (i < 0) bench[name][t] = x; else bench[name][t][i] = x;
        $('json').value = JSON.stringify(bench);
      };
      cell.append(input);
      return cell;
    }));
    return row;
  });
  $('bench').replaceChildren(head, ...rows);
}

function request(form, show) {
  const all = {attention: $('attention').value, settings: {}, causal: $('causal').checked, form, show};
  if (all.attention === 'linear') Object.assign(all.settings, {feature: $('feature').value, rule: $('rule').value});
  for (const [name] of columns()) all[name] = bench[name];
  return all;
}

const product = y => y.reduce((sum, row, t) => sum + row.reduce((part, x, i) => part + x * bench.dy[t][i], 0), 0);

let states = [];
function showState() {
  const t = Number($('film').value);
  if (!states[t]) return;
  paintMatrix($('state'), states[t].rows);
  say('stateText', `${states[t].name} after position ${t + 1}:\n` +
    states[t].rows.map(row => row.map(x => Number(x.toFixed(6))).join('  ')).join('\n'));
}
$('film').oninput = showState;

const compute = () => alone(async () => {
  const call = await start();
  try {
    const form = $('form').value, found = JSON.stringify(request(form, ['steps']));
    const shownSteps = call('live_attend', found), gradients = call('live_attend', JSON.stringify(request('chunked', ['weights'])));
    say('steps', shownSteps.text);
    states = shownSteps.states || [];
    $('film').max = Math.max(0, states.length - 1);
    $('states').hidden = !states.length;
    showState();
    const [name, t, i] = $('nudged').value.split(',');
    const value = name => i === '' ? name[t] : name[t][i], before = value(bench[name]);
    const set = x => { if (i === '') bench[name][t] = x; else bench[name][t][i] = x; };
    set(before + 0.001);
    const after = call('live_attend', JSON.stringify(request('chunked', ['weights'])));
    set(before);
    const change = (product(after.y) - product(gradients.y)) / 0.001;
    const d = gradients['d' + name], derivative = i === '' ? [d[t]].flat()[0] : d[t][i];
    say('gradients', Object.entries(gradients).filter(([key]) => key[0] === 'd').map(([key, rows]) =>
      key + '  ' + rows.map(row => row.map(x => Number(x.toFixed(6))).join(' ')).join(' | ')).join('\n'));
    say('nudge', `0.001 more in ${$('nudged').selectedOptions[0].text} changes dy·y by ${change.toFixed(6)} a unit; the gradient there is ${derivative.toFixed(6)}`);
    say('problem', '');
  } catch (error) {
    say('problem', error.message, true);
  }
});

function drawNudged() {
  const chosen = $('nudged').value;
  $('nudged').replaceChildren(...bench.q.flatMap((_, t) => columns().filter(([name]) => name !== 'dy').map(([name, i]) => {
    return new Option(`${name}${i + 1 || ''} of position ${t + 1}`, [name, t, i < 0 ? '' : i].join(','));
  })));
  if (chosen) $('nudged').value = chosen;
}

$('compute').onclick = compute;
$('more').onclick = () => {
  if (bench.q.length < 8) for (const rows of Object.values(bench)) rows.push(structuredClone(rows.at(-1)));
  redraw();
};
$('fewer').onclick = () => {
  if (bench.q.length > 1) for (const rows of Object.values(bench)) rows.pop();
  redraw();
};
function redraw() {
  for (const id of ['rule', 'feature']) $(id).disabled = $('attention').value !== 'linear';
  drawBench();
  drawNudged();
  $('json').value = JSON.stringify(bench);
}
$('json').onchange = () => {
  try {
    const given = JSON.parse($('json').value), ones = given.q.map(() => 1);
    Object.assign(bench, {dy: given.v.map(row => row.map(() => 1)), gate: ones, beta: [...ones]}, given);
    redraw();
  } catch (error) {
    say('problem', error.message, true);
  }
};
for (const id of ['attention', 'rule']) $(id).onchange = redraw;

// ---- What this browser can --------------------------------------------------------------------------------

const lacks = [['WebAssembly', typeof WebAssembly === 'object'], ['DecompressionStream', typeof DecompressionStream === 'function']]
  .filter(([, present]) => !present).map(([name]) => name);
if (lacks.length) {
  say('without', `This browser has no ${lacks.join(' and no ')}: below is a recorded run.`);
} else {
  $('live').hidden = false;
  say('without', '');
  redraw();
  showPainted();
}
})();
