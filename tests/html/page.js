// SPDX-License-Identifier: GPL-2.0-or-later
//
// page.js FILE [EVENTS [NAME [WANT]]]: looks at a page that kvmft wrote, in both themes, with mouse and keys; TAP on
// stdout. NAME is what some task must be called, WANT a JSON of what must be there (see things()). With PICTURES=DIR the screens are kept there.
// BRIEF=1: only that it opens, its words and what must be there, for a page that another one is like.
// BROWSER: chromium (if none is named) or firefox.
'use strict';
const path = require('path');
const drivers = { chromium: './browser.js', firefox: './firefox.js' }, browser = process.env.BROWSER || 'chromium';
const { Page } = require(drivers[browser]);

const file = path.resolve(process.argv[2]);
const events = process.argv[3] ? Number(process.argv[3]) : 0;
let count = 0;
function ok(what, name, more = '') {
	console.log(`${what ? 'ok' : 'not ok'} ${++count} - ${name}${what || more === '' ? '' : ` (${more})`}`);
}

// How many different colours the canvas has: a blank one has one.
const colours = `(() => { const d = ctx.getImageData(0, 0, canvas.width, canvas.height).data, s = new Set();
	for (let i = 0; i < d.length; i += 4) s.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]); return s.size; })()`;

async function look(dark) {
	const name = dark ? 'dark' : 'light', p = await Page.open('file://' + file, { dark, width: dark ? 2560 : 1280 });
	ok(p.errors.length === 0, `${name}: opens without an error`, p.errors.join(' '));
	if (events) ok(await p.value('N') === events, `${name}: has all ${events} events`, String(await p.value('N')));
	ok(await p.value('document.documentElement.dataset.theme') === name, `${name}: has the theme of the system`);
	ok(await p.value(colours) > 8, `${name}: something is drawn`, String(await p.value(colours)));
	if (process.argv[4]) ok(await p.value(`whos.some((w) => w.comm === ${JSON.stringify(process.argv[4].slice(0, 15))} || w.comm === ${JSON.stringify(process.argv[4])})`), `${name}: the hostile name is there, as text`);
	ok(await p.value('document.querySelectorAll("img, script[src], link, iframe").length') === 0, `${name}: loads nothing`);
	const width = await p.value('innerWidth');
	ok(await p.value('document.documentElement.scrollWidth <= innerWidth && document.querySelector("aside").scrollWidth <= document.querySelector("aside").clientWidth'), `${name}: nothing is wider than ${width} px`);
	ok(await p.value('[...$("names").children].every((e) => e.lastChild.getBoundingClientRect().right <= $("names").getBoundingClientRect().right && e.getBoundingClientRect().left >= 0)'),
		`${name}: lanes' names are whole at ${width} px`);
	ok(await p.value('!lanes.length || LABEL >= $("names").offsetWidth'), `${name}: no bar lies under them`);
	if (process.env.PICTURES) await p.picture(path.join(process.env.PICTURES, `${path.basename(file)}-${browser}-${name}.png`));
	return p;
}

// On a small window, too, names are whole and the time line has room; the slow moments take what room there is.
async function narrow(p) {
	for (const [w, h] of [[880, 700], [500, 700]]) {
		await p.size(w, h);
		await p.frame();
		ok(await p.value('[...$("names").children].every((e) => e.lastChild.getBoundingClientRect().right <= $("names").getBoundingClientRect().right)'), `${w} px: no name runs into its lane`);
		ok(await p.value('!lanes.length || (LABEL >= $("names").offsetWidth && LABEL < W / 2 && H > 150)'), '... which have room', await p.value('[LABEL, $("names").offsetWidth, W, H].join(" ")'));
		ok(w < 600 || await p.value('[...$("names").querySelectorAll("span")].every((e) => e.scrollWidth <= e.clientWidth)'), '... and names are whole');
		ok(await p.value('document.documentElement.scrollWidth <= innerWidth'), '... and nothing is wider');
		const over = await p.value(`(() => { const seen = [], was = ctx.fillText; let free = 0;
			ctx.fillText = (s, x, y) => { if (y === 12) { if (x < free) seen.push(s); free = x + ctx.measureText(s).width; } was.call(ctx, s, x, y); };
			draw(); ctx.fillText = was; return seen; })()`);
		ok(!over.length, '... and no label of the axis runs into the next', over.join(', '));
	}
	await p.size(1280, 800);
	await p.frame();
	if (!await p.value('!!document.querySelector("#spikes ol")')) return;
	// With many of them, and with few again.
	const heights = await p.value(`(() => { const box = document.querySelector('#spikes ol'), aside = document.querySelector('aside'), kept = [...box.children], least = $('spikes').style.minHeight;
		for (let k = 0; k < 60; k++) box.append(kept[0].cloneNode(true));
		$('spikes').style.minHeight = '17em';
		const all = [$('spikes').offsetHeight, aside.scrollHeight - aside.clientHeight];
		for (const e of [...box.children].slice(kept.length)) e.remove();
		$('spikes').style.minHeight = least;
		return [...all, box.scrollHeight - box.clientHeight, $('spikes').offsetHeight]; })()`);
	ok(heights[0] >= 17 * 13 && (heights[1] <= 0 || heights[0] < 17 * 13 + 2), 'many slow moments are as tall as there is room', heights.join(' '));
	ok(heights[2] <= 0 || heights[3] >= 14 * 13, '... and few are all seen', heights.join(' '));
}

async function hands(p) {
	const width = () => p.value('t1 - t0'), all = await width();
	await p.mouse('mouseWheel', 700, 120, { deltaX: 0, deltaY: -600 });
	await p.frame();
	const near = await width();
	ok(near < all * 0.7, 'the wheel zooms in', `${all} ${near}`);
	await p.key('-');
	ok(await width() > near, 'a key zooms out');
	// A touchpad: two fingers that move sideways are a wheel's deltaX, a pinch is a wheel with ctrl.
	const left = await p.value('t0'), wide = await width();
	await p.mouse('mouseWheel', 700, 120, { deltaX: 200, deltaY: 0 });
	await p.frame();
	ok(await p.value('t0') > left && Math.abs(await width() - wide) < wide * 0.01, 'two fingers sideways move');
	await p.mouse('mouseWheel', 700, 120, { deltaX: 0, deltaY: -100, modifiers: 2 });
	await p.frame();
	// Chromium would zoom the one, Firefox the other.
	ok(await width() < wide * 0.95 && await p.value('visualViewport.scale === 1 && devicePixelRatio === 1'), 'a pinch zooms the time line, not the page');
	const from = await p.value('t0');
	await p.key('ArrowRight');
	ok(await p.value('t0') > from, 'a key moves');
	const before = await p.value('t0');
	await p.mouse('mousePressed', 600, 120, { button: 'left', clickCount: 1 });
	await p.mouse('mouseMoved', 800, 120, { button: 'left' });
	await p.mouse('mouseReleased', 800, 120, { button: 'left', clickCount: 1 });
	ok(await p.value('t0') < before, 'the mouse drags');
	const hash = () => p.value('decodeURIComponent(location.hash).replace(/[ T](?=\\d\\d:)|[+-]\\d\\d:\\d\\d(?=,|$)/g, " ")');
	const plain = (text) => text.replace(/\s|cycles/g, '');
	// Browsers take only so many changes of the address: one for each step is too many.
	await p.value('for (let i = 0; i < 1200; i++) pan(i % 2 ? 0.01 : -0.01); pan(0.01)');
	await new Promise((r) => setTimeout(r, 450));
	await p.frame();
	ok(plain(await hash()) === '#t=' + plain((await p.value('$("range").textContent')).split(' (')[0]).replace('…', ','), 'the address has the range that is shown', await hash());
	await p.key('0');
	ok(Math.abs(await width() - all) < all * 0.05, '0 shows all');
	// What the axis says at two of its lines is taken as a range.
	const lines = await p.value(`(() => { const seen = [], was = ctx.fillText; ctx.fillText = (s, x, y) => { if (y === 12) seen.push([s, TIME(x - 3)]); was.call(ctx, s, x, y); };
		show(first + (last - first) * .3, first + (last - first) * .6); draw(); ctx.fillText = was; const px = (t1 - t0) / (W - LABEL);
		location.hash = '#t=' + seen[0][0] + ',' + seen[1][0]; return { seen, px }; })()`);
	await p.frame();
	const now = await p.value('[t0, t1]');
	ok(now.every((t, k) => Math.abs(t - lines.seen[k][1]) <= lines.px), 'a link with the values of the axis goes there', JSON.stringify([lines, now]));
	ok(await p.value('[first, first + 1234, last].every((t) => Math.abs(unmark(mark(t)) - t) < 1)'), 'what it gives, it takes');
	const stays = await p.value('location.hash = "#t=<img src=x>,%E0%A4%A"; [t0, t1]');
	await p.frame();
	ok(JSON.stringify(await p.value('[t0, t1]')) === JSON.stringify(stays), 'what is no time moves nothing');
	await p.key('0');
	await p.value('chosen = 0');
	await p.key('m');
	await p.value('chosen = N - 1');
	await p.key('m');
	await p.frame();
	ok(await p.value('$("range").textContent.endsWith("A to B: " + dur(T[N - 1] - T[0]))'), 'm marks two events, and says the time between them', await p.value('$("range").textContent'));
	ok(await p.value(`(() => { const d = ctx.getImageData(X(marks[0]) + 2, HEAD + 8, 1, 1).data;
		ctx.fillStyle = color('--bg'); return ctx.fillStyle === '#' + [...d].slice(0, 3).map((v) => v.toString(16).padStart(2, '0')).join(''); })()`), '... whose letters stand on no bar');
	await p.key('x');
	ok(!await p.value('pointing'), 'x takes the arrows off');
	await p.key('x');
	await p.key('Escape');
	await p.frame();
	ok(await p.value('pointing && !marks.length && chosen < 0'), '... and on again, and Escape takes the marks off');
	// Whatever clock the page has, a time of day is understood if there is one; a whole second is that second.
	if (await p.value('dayOf(0) !== undefined && unmark("1.5") === unmark("1.5") && meta.unit === "ns"')) {
		const iso = await p.value('new Date(Number(dayOf((first + last) / 2) / 1000000n)).toISOString()');
		ok(await p.value(`Math.abs(unmark("${iso}") - (first + last) / 2) <= 1e6`), 'a time of day is understood', iso);
		await p.value(`location.hash = "#t=${iso.slice(0, 19)}Z"`);
		await p.frame();
		ok(await p.value('t1 - t0 <= 1.0001e9'), 'a whole second is that second', await p.value('t1 - t0'));
	}
	await p.value('location.hash = "#t=tomorrow"');
	await p.frame();
	ok(await p.value('$("chosen").textContent.includes("tomorrow: there is no such time")'), 'what is no time is said');
	await p.key('Escape');
	await p.key('0');
}

// With the keyboard alone: everything that can be pressed is reached, and seen to be.
async function keyboard(p) {
	const seen = ['find'];
	await p.value('$("find").focus()');
	let visible = true;
	for (let k = 0; k < 6; k++) {
		await p.key('Tab');
		seen.push(await p.value('document.activeElement.id'));
		visible = visible && await p.value('document.activeElement.matches(":focus-visible") && getComputedStyle(document.activeElement).outlineStyle !== "none"');
	}
	ok(seen.join(' ') === 'find prev next all theme ask stage', 'Tab goes through all in order', seen.join(' '));
	ok(visible, 'the focus is seen');
	await p.value('stage.focus()');
	const width = await p.value('t1 - t0');
	await p.key('+');
	ok(await p.value('t1 - t0') < width, '+ zooms in');
	await p.key('ArrowDown');
	ok(await p.value('lanes.length < 2 || $("names").children[1].className.includes("at")'), 'an arrow goes to the next lane');
	await p.key('.');
	const one = await p.value('chosen');
	await p.key('.');
	ok(one >= 0 && await p.value('chosen === ' + one + ' ? Math.max(lanes[cursor].s.length, lanes[cursor].p.length) < 3 : T[chosen] >= T[' + one + ']'), '. selects the next in it', `${one} ${await p.value('chosen')}`);
	await p.key('Escape');
	await p.key('0');
}

async function words(p) {
	const names = await p.value('[...$("names").children].map((e) => e.textContent)');
	ok(names.length > 0 && new Set(names).size === names.length && names.length === await p.value('lanes.length'), 'every lane has a name of its own', names.join(', '));
	// Of reasons, and of a state and a reason: by how far they are apart in OKLab, which is about .02 for what is just told apart.
	const near = await p.value(`(() => { let least = 1; const all = [...colorOf.values()].slice(0, 60).map(lab), states = STATES.map((v) => lab(css.getPropertyValue(v).trim().replace(/^#(.)(.)(.)$/, '#$1$1$2$2$3$3')));
		all.forEach((a, k) => [...all.slice(0, k), ...states].forEach((b) => { least = Math.min(least, Math.hypot(...a.map((v, n) => v - b[n]))); })); return least; })()`);
	const strays = await p.value(`[...colorOf].filter(([name, c]) => common.has(name) && c !== palette[common.get(name)]).map(([name]) => name).join(' ')`);
	ok(strays === '', 'common exits have the colour that they have on any page', strays);
	console.log(`# ${await p.value('colorOf.size')} reasons, nearest colours ${near.toFixed(3)} apart`);
	ok(near > 0.05, 'no two reasons look alike', String(near));
	const chips = await p.value('[...document.querySelectorAll("#legend span")].filter((e) => e.textContent.startsWith("exit: ")).map((e) => e.firstChild.style.background)');
	ok(new Set(chips).size === chips.length && chips.length === await p.value('Math.min(colorOf.size, REASONS)'), 'the legend has each of them', chips.join(' '));
	const used = await p.value('new Set(lanes.flatMap((l) => l.c)).size');
	ok(await p.value('document.querySelectorAll("#legend span").length') > (used > 0), 'the legend tells the colours', String(used));
	await p.key('?');
	ok(await p.value('$("help").open && $("help").textContent.includes("search")'), '? shows the keys');
	const from = await p.value('t0');
	await p.key('d');
	ok(await p.value('t0') === from, 'keys do nothing behind that');
	await p.key('?');
	ok(!(await p.value('$("help").open')), '? hides them');
	ok(await p.value('lanes.every((l) => l.p.length || l.s.length)'), 'no lane is empty');
	ok(await p.value('lanes.every((l) => l.s.every((s, k) => s <= l.e[k] && (!k || l.s[k - 1] <= s)))'), 'slices are in order');
	ok(await p.value('new Set(lanes.flatMap((l) => l.p)).size === N'), 'every event is on a lane');
}

async function search(p) {
	const word = await p.value('types[TYPE[0]].name');
	const want = await p.value(`(() => { let n = 0; for (let i = 0; i < N; i++) n += types[TYPE[i]].name === ${JSON.stringify(word)}; return n; })()`);
	await p.key('/');
	ok(await p.value('document.activeElement.id') === 'find', '/ goes to the search');
	await p.value(`$('find').value = ${JSON.stringify(word)}; search($('find').value); stage.focus()`);
	ok(await p.value('hits.length') >= want && want > 0, 'the search finds what has the name', `${await p.value('hits.length')} of ${want}`);
	const at = await p.value('hit');
	await p.key('n');
	ok(want < 2 || await p.value('hit') === at + 1, 'n goes to the next');
	await p.key('Escape');
	await p.key('/');
	await p.value('$("find").value = ""');
	for (const c of 'no such thing') await p.key(c);
	await p.key('Enter');
	ok(await p.value('hits.length === 0 && $("found").textContent === "0 found"'), 'what is typed and not there is not found');
	await p.key('Escape');
	// A slice is chosen with the mouse: what it is stands beside, and its like are counted.
	const spot = await p.value(`(() => { for (const l of lanes) for (let k = 0; k < l.s.length; k++) { show(l.s[k] - (l.e[k] - l.s[k]), l.e[k] + (l.e[k] - l.s[k])); draw();
		const r = canvas.getBoundingClientRect(); return [r.x + (X(l.s[k]) + X(l.e[k])) / 2, r.y + HEAD + l.at * ROW + 10]; } return null; })()`);
	if (!spot) return;
	await p.click(spot[0], spot[1]);
	await p.frame();
	ok(await p.value('$("chosen").textContent.includes("=")'), 'a click shows the fields');
	ok(await p.value('$("tip").style.display') === 'block', 'so does the tooltip');
	ok(await p.value('bars.length') > 0, 'a histogram of its like is there');
	await p.value('$("hist").querySelector("button").focus()');
	await p.key('Enter');
	ok(await p.value('selected !== null && hits.length === selected.size'), 'a bar chooses its events');
}

// What the page took of a CPU until it was there, and the best of some frames: only told: a busy machine may take any time.
async function speed(p) {
	await p.blank();
	const before = await p.busy();
	await p.go('file://' + file);
	const open = await p.busy() - before;
	const ms = await p.value(`(() => { const best = (a, b) => { let least = Infinity; show(a, b);
		for (let k = 0; k < 20; k++) { const t = performance.now(); draw(); least = Math.min(least, performance.now() - t); } return least; };
		return [best(first, last), best(first, first + (last - first) / 50)]; })()`);
	console.log(`# opened in ${p.opened} ms, of which ${Math.round(open)} ms on a CPU; a frame of all takes ${ms[0].toFixed(1)} ms, of a fiftieth ${ms[1].toFixed(1)} ms`);
}

async function paper(p) {
	await p.value('theme(true)');
	ok((await p.pdf()).subarray(0, 5).toString() === '%PDF-', 'it can be printed');
	await p.frame();
	ok(await p.value('document.documentElement.dataset.theme') === 'dark', 'and has its theme again then');
}

// The list of slow moments: [text, what is said when it is chosen, begin, end], by mouse and by keys.
async function spikes(p, want) {
	const list = await p.value('[...document.querySelectorAll("#spikes li")].map((e) => e.textContent)');
	ok(JSON.stringify(list) === JSON.stringify(want.map((w) => w[0])), 'the slow moments, the longest first', list.join(' | '));
	ok(await p.value('document.querySelector("aside").firstElementChild.id') === 'spikes', 'nothing stands above them');
	const there = async (name, [, said, begin, end]) => {
		await p.frame();
		const [t0, t1, text] = await p.value('[t0, t1, $("chosen").textContent]');
		ok(t0 < begin && t1 > end && t1 - t0 < (end - begin) * 1.5 + 3000, `${name} goes to its time`, `${t0} ${t1}`);
		ok(said.every((s) => text.includes(s)), `${name} tells the parts`, text);
	};
	await p.value('stage.focus()');
	for (const w of want) { await p.key(']'); await there('a key', w); }
	await p.key('[');
	await there('a key back', want[Math.max(0, want.length - 2)]);
	await p.key('0');
	await p.value('document.querySelector("#spikes a").focus()');
	await p.key('Enter');
	await there('Enter', want[0]);
	await p.key('0');
	const at = await p.value('(() => { const r = document.querySelector("#spikes a").getBoundingClientRect(); return [r.x + 5, r.y + 5]; })()');
	await p.click(at[0], at[1]);
	await there('a click', want[0]);
	ok(await p.value('lanes[cursor].order[0] === 0 && lanes[cursor].key[0] === "s"'), 'the keys are at its vCPU');
	await p.key('Escape');
	await p.key('0');
}

// WANT of the command line: lanes that there must be, and arrows as "from > to", by the names of their lanes.
async function things(p, want) {
	const lanes = await p.value('lanes.map((l) => l.label)');
	for (const name of want.lanes || []) ok(lanes.includes(name), `lane "${name}"`, lanes.join(', '));
	const arrows = await p.value('arrows.map((a) => `${byKey.get(a.from).label} > ${byKey.get(a.to).label}: ${a.s} ${a.e}`)');
	if (want.arrows) ok(JSON.stringify(arrows) === JSON.stringify(want.arrows), 'arrows as they should be', arrows.join(', '));
	for (const name of want.slices || []) ok(await p.value(`lanes.some((l) => l.n.includes(${JSON.stringify(name)}))`), `slice "${name}"`);
	for (const text of want.beside || []) ok((await p.value('$("about").textContent + $("cases").textContent')).includes(text), `beside it: ${text}`);
	for (const [name, what, time] of want.under || []) {
		const seen = await p.value(`(() => { const l = lanes.find((x) => x.label === ${JSON.stringify(name)}); show(${time} - 30, ${time} + 30); draw();
			const x = X(${time}), y = HEAD + l.at * ROW + ROW / 2 - stage.scrollTop, p = pick(x, y);
			const c = [...ctx.getImageData(x, y + 6, 1, 1).data].slice(0, 3).map((v) => v.toString(16).padStart(2, '0')).join(''); return [p && p.s >= 0 ? l.n[p.s] : 'nothing', '#' + c, p && p.s >= 0 && color(l.c[p.s])]; })()`);
		ok(seen[0] === what && seen[1] === seen[2], `${what} is there where what lay in it has ended`, seen.join(' '));
	}
	for (const name of want.no_lanes || []) ok(!lanes.some((l) => l.includes(name)), `no lane "${name}"`, lanes.join(', '));
	for (const [name, end] of Object.entries(want.ends || {})) {
		const e = await p.value(`Math.max(...lanes.flatMap((l) => l.e.filter((v, k) => l.n[k] === ${JSON.stringify(name)})))`);
		ok(e === end, `"${name}" ends at ${end}`, String(e));
	}
	if (want.reasons) ok(await p.value('colorOf.size') >= want.reasons, `${want.reasons} reasons`, String(await p.value('colorOf.size')));
	if (want.said) ok(await p.value(`strings.some((s) => s.includes(${JSON.stringify(want.said)}))`), 'what was said is there, as text');
	if (want.gaps !== undefined) ok(await p.value('gaps.length') === want.gaps, 'gaps', String(await p.value('gaps.length')));
	if (want.gaps) {
		const more = await p.value(`(() => { const dots = () => { draw(); return ctx.getImageData(0, 0, canvas.width, canvas.height).data.slice(); };
			const g = gaps[0]; show(g.t - 500, g.t + 500); const all = dots(), kept = gaps.splice(0), none = dots(); gaps.push(...kept); return all.reduce((n, v, k) => n + (v !== none[k]), 0); })()`);
		ok(more > 30, 'gaps are hatched', String(more));
	}
	if (want.spikes) await spikes(p, want.spikes);
	const link = await p.value('(() => { const a = document.querySelector("#cases a"); if (!a) return null; a.click(); return a.getAttribute("href"); })()');
	if (want.link) {
		await p.frame();
		ok(link !== null && await p.value('location.hash') === link, 'the worst case is a link to its time', String(link));
	}
}

(async () => {
	const whole = process.env.BRIEF !== '1';
	if (whole) await (await look(true)).close();
	const p = await look(false);
	if (whole) {
		await hands(p);
		await keyboard(p);
	}
	await words(p);
	await narrow(p);
	if (whole) {
		await search(p);
		await paper(p);
	}
	if (process.argv[5]) await things(p, JSON.parse(process.argv[5]));
	if (whole) await speed(p);
	await p.frame();
	ok(p.errors.length === 0, 'no error in all of it', p.errors.join(' '));
	await p.close();
	console.log(`1..${count}`);
})().catch((e) => { console.log(`not ok ${++count} - ${e.stack.split('\n').join(' ')}`); process.exit(1); });
