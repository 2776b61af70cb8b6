package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/apps"
	"k8s.io/client-go/informers/core"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/informers/policy"
	"k8s.io/client-go/informers/resource"
	"k8s.io/client-go/informers/scheduling"
	"k8s.io/client-go/informers/storage"
	"k8s.io/client-go/tools/cache"
)

// factory hands out informers that hold what they are told, without a server, a watch or a
// goroutine: an object that is added is in every lister and has reached every handler on return.
type factory struct {
	informers.SharedInformerFactory // groups that the scheduler does not ask for
	byType                          map[reflect.Type]*informer
}

func newFactory() *factory {
	return &factory{byType: map[reflect.Type]*informer{}}
}

func (f *factory) InformerFor(example runtime.Object, _ internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
	kind := reflect.TypeOf(example).Elem()
	found, ok := f.byType[kind]
	if !ok {
		indexers := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
		found = &informer{indexer: cache.NewIndexer(cache.MetaNamespaceKeyFunc, indexers)}
		f.byType[kind] = found
	}
	return found
}

func (f *factory) InformerName() *cache.InformerName { return nil }
func (f *factory) Start(<-chan struct{})             {}
func (f *factory) Apps() apps.Interface              { return apps.New(f, "", nil) }
func (f *factory) Core() core.Interface              { return core.New(f, "", nil) }
func (f *factory) Policy() policy.Interface          { return policy.New(f, "", nil) }
func (f *factory) Resource() resource.Interface      { return resource.New(f, "", nil) }
func (f *factory) Scheduling() scheduling.Interface  { return scheduling.New(f, "", nil) }
func (f *factory) Storage() storage.Interface        { return storage.New(f, "", nil) }

// firstVersion is the resource version of objects that come without one.
const firstVersion = 1000

// add decodes objects of a resource (`nodes`, `persistentVolumeClaims`) and delivers them.
// A resource that no part of this scheduler listens to is left out: it cannot matter.
func (f *factory) add(plural string, bodies []json.RawMessage) error {
	for _, body := range bodies {
		if err := f.put(plural, body); err != nil {
			return err
		}
	}
	return nil
}

// put delivers one object that is new or changed.
func (f *factory) put(plural string, body json.RawMessage) error {
	return f.each(plural, func(kind reflect.Type, informer *informer) error {
		object := reflect.New(kind).Interface()
		if err := json.Unmarshal(body, object); err != nil {
			return fmt.Errorf("decoding %s: %w", kind.Name(), err)
		}
		if named := object.(metav1.Object); named.GetResourceVersion() == "" {
			named.SetResourceVersion(strconv.Itoa(firstVersion))
		}
		return informer.put(object)
	})
}

// change delivers a changed copy of an object, if it is still there.
func (f *factory) change(plural, key string, edit func(any) error) error {
	return f.each(plural, func(_ reflect.Type, informer *informer) error {
		old, exists, err := informer.indexer.GetByKey(key)
		if err != nil || !exists {
			return err
		}
		changed := old.(runtime.Object).DeepCopyObject()
		if err := edit(changed); err != nil {
			return err
		}
		named := changed.(metav1.Object)
		version, _ := strconv.Atoi(named.GetResourceVersion())
		named.SetResourceVersion(strconv.Itoa(version + 1)) // what did not change is not looked at
		return informer.put(changed)
	})
}

// remove tells that an object is gone.
func (f *factory) remove(plural, key string) error {
	return f.each(plural, func(_ reflect.Type, informer *informer) error {
		old, exists, err := informer.indexer.GetByKey(key)
		if err != nil || !exists {
			return err
		}
		if err := informer.indexer.Delete(old); err != nil {
			return err
		}
		for _, handler := range informer.handlers {
			handler.OnDelete(old)
		}
		return nil
	})
}

// each finds the informers of a resource; kinds of one name in several versions have one each.
func (f *factory) each(plural string, do func(reflect.Type, *informer) error) error {
	for kind, informer := range f.byType {
		if strings.EqualFold(resourceOf(kind), plural) {
			if err := do(kind, informer); err != nil {
				return err
			}
		}
	}
	return nil
}

var resources sync.Map // of the kinds seen so far

func resourceOf(kind reflect.Type) string {
	if seen, ok := resources.Load(kind); ok {
		return seen.(string)
	}
	plural, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Kind: kind.Name()})
	resources.Store(kind, plural.Resource)
	return plural.Resource
}

// informer is a cache.SharedIndexInformer that is always synced and delivers at once.
type informer struct {
	cache.SharedIndexInformer // methods that only a running informer needs
	indexer                   cache.Indexer
	handlers                  []cache.ResourceEventHandler
}

func (i *informer) put(object any) error {
	old, exists, err := i.indexer.Get(object)
	if err == nil {
		err = i.indexer.Add(object)
	}
	if err != nil {
		return err
	}
	for _, handler := range i.handlers {
		if exists {
			handler.OnUpdate(old, object)
		} else {
			handler.OnAdd(object, true)
		}
	}
	return nil
}

func (i *informer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	i.handlers = append(i.handlers, handler)
	for _, object := range i.indexer.List() {
		handler.OnAdd(object, true)
	}
	return synced{}, nil
}

func (i *informer) AddEventHandlerWithResyncPeriod(handler cache.ResourceEventHandler, _ time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(handler)
}

func (i *informer) AddEventHandlerWithOptions(handler cache.ResourceEventHandler, _ cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(handler)
}

func (i *informer) RemoveEventHandler(cache.ResourceEventHandlerRegistration) error { return nil }
func (i *informer) AddIndexers(indexers cache.Indexers) error                       { return i.indexer.AddIndexers(indexers) }
func (i *informer) GetIndexer() cache.Indexer                                       { return i.indexer }
func (i *informer) GetStore() cache.Store                                           { return i.indexer }
func (i *informer) HasSynced() bool                                                 { return true }
func (i *informer) HasSyncedChecker() cache.DoneChecker                             { return synced{} }
func (i *informer) IsStopped() bool                                                 { return false }
func (i *informer) SetTransform(cache.TransformFunc) error                          { return nil }

// synced says of a handler that it has seen everything.
type synced struct{}

var done = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

func (synced) HasSynced() bool                       { return true }
func (s synced) HasSyncedChecker() cache.DoneChecker { return s }
func (synced) Name() string                          { return "oracle" }
func (synced) Done() <-chan struct{}                 { return done }
